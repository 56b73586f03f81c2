#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "transforms/kernels/codec/field_index.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::transforms {

/// Which sample: together with the seed it decides every random number (DESIGN section 4).
struct SampleId {
  std::uint64_t epoch = 0;
  std::uint64_t record = 0;
  std::uint64_t occurrence = 0;  ///< 0 at the record's own position, 1 + position for a substitute
};

struct PlanOptions {
  std::uint64_t seed = 0;
  bool fuse = true;  ///< false: one op after the other, each whole; the reference for tests
  std::uint64_t image_pixels_max =
      178'956'970;  ///< declared pixels over this are kCorrupt (Pillow's bomb limit x 2 is an error there);
                    ///< when it is lowered, so are pictures that an op makes
  std::uint32_t jpeg_scans_max = 500;  ///< more scans than this are kCorrupt
  /// In which order the pipeline's ops run, by their indices; empty: as declared. Each op keeps the random
  /// numbers of its declared place. That the result is still what was declared is the caller's to know
  /// (commutes()).
  std::vector<std::size_t> order{};
  /// The part of a plan: its ops from `first` up to before `last`, places in that order. What runs before
  /// `first` is done elsewhere: its tensors are the inputs. Parts one behind the other give the bits of the
  /// whole, whoever runs them.
  std::size_t first = 0;
  std::size_t last = SIZE_MAX;  ///< more than there are: to the end
};

/// What a stage cost: shown by loader.stats(). CPU time is sampled: one sample in 32 is timed, fewer
/// when that would cost more than about a hundredth.
struct OpProfile {
  std::string name;                 ///< the fused ops joined by '+': "decode_image+random_resized_crop"
  std::uint64_t samples = 0;        ///< all
  std::uint64_t timed_samples = 0;  ///< of them timed
  std::uint64_t cpu_ns = 0;         ///< of the timed ones
  std::uint64_t bytes_in = 0;       ///< of the timed ones
  std::uint64_t bytes_out = 0;
  std::vector<std::uint32_t> ops{};  ///< which of the pipeline's ops it is, by index, as they run
  // Of a stage that decodes: what it opened for the timed ones, before any window.
  std::uint64_t pictures = 0;
  std::uint64_t height = 0;  ///< sums
  std::uint64_t width = 0;
};

/// JPEG pictures by the decoder that served them; shown by loader.stats().
struct DecodePaths {
  std::uint64_t own = 0;       ///< transforms/jpeg
  std::uint64_t turbo = 0;     ///< libjpeg-turbo
  std::uint64_t warnings = 0;  ///< damage inside a scan that libjpeg-turbo concealed
  // What decoding costs depends on (see DecodeCounts):
  std::uint64_t indexed = 0;     ///< of `own`: began at the points of a stored index
  std::uint64_t scan_bytes = 0;  ///< compressed bytes read, estimated
  std::uint64_t pixels = 0;      ///< decoded
};

/// Memory and counters of one thread that runs plans: decoder state, bands of rows, tables. Grows to what the
/// largest sample needs and is then allocation-free. Threads: owner only.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(Scratch&&) noexcept;
  Scratch& operator=(Scratch&&) noexcept;
  struct Impl;
  Impl& impl() { return *impl_; }
  /// Asked between the steps of a picture: false ends the sample with kTimeout. Empty: never.
  void set_go_on(std::function<bool()> go_on);

 private:
  std::unique_ptr<Impl> impl_;
};

/// The physical form of a pipeline: fused stages that write into given memory. Immutable.
/// Threads: const is thread-safe, with one Scratch per thread.
class Plan {
 public:
  /// Errors: kInvalidArgument: a batch of unknown shapes; an order that does not have each op once, or in
  /// which an op cannot take what it is given or other tensors come out; a part that begins or ends where a
  /// field is encoded or of an unknown shape (but for the source itself).
  static Result<std::shared_ptr<const Plan>> compile(std::shared_ptr<const Pipeline> pipeline,
                                                     const PlanOptions& options);
  virtual ~Plan() = default;

  /// What run() takes: the pipeline's fields(), or what the ops before the part make.
  virtual const std::vector<SourceField>& inputs() const = 0;
  /// Fixed shapes of what run() writes, in the order of its `outputs`; kInvalidArgument at compile() when the
  /// pipeline has a batch and a shape is still unknown.
  virtual const std::vector<TensorSpec>& outputs() const = 0;
  /// Whether pictures are decoded only where the crops behind the decode look: then an index saves time.
  virtual bool decodes_windows() const = 0;

  /// Compute one sample into given memory. `inputs` has one span per field of inputs(), in
  /// order (a label is 8 bytes); an encoded input has at least 1 readable byte after its end. `outputs[i]`
  /// has outputs()[i].bytes() bytes and any alignment; every byte is written on success, and unspecified on
  /// error. Errors: kCorrupt: the sample is bad data, `message` says stage and reason ("decode_image: not a
  /// JPEG or PNG (starts with 52 49 46 46: WebP)"); kExhausted: a library of the decode had no memory,
  /// which is no fault of the sample (our own allocations throw std::bad_alloc). Nothing else: the rest is a
  /// bug.
  /// `indexes` is empty, or has one entry per field; those of encoded fields are used and their out members
  /// set, also on error. They change no bit; an unfused plan and a field that is not a JPEG make no use of
  /// them.
  virtual Status run(Scratch& scratch, const SampleId& id, std::span<const std::span<const std::byte>> inputs,
                     std::span<std::byte* const> outputs, std::span<FieldIndex> indexes = {}) const = 0;

  /// Compute one sample op by op, with any shape, for debugging. Same bits as run().
  virtual Result<std::vector<OwnedTensor>> sample(
      const SampleId& id, std::span<const std::span<const std::byte>> inputs) const = 0;

  /// Add this scratch's counters to `total` (one entry per stage, same order always) and clear them. Called
  /// by the owner of `scratch`.
  virtual void collect_profile(Scratch& scratch, std::vector<OpProfile>& total) const = 0;
  /// Add what this scratch has decoded to `total` and clear it. Called by the owner of `scratch`.
  virtual void collect_decodes(Scratch& scratch, DecodePaths& total) const = 0;
};

/// Whether ordinary JPEGs go to our own decoder (the default) or all to libjpeg-turbo: the same bits. For the
/// whole process (tests, bench), from the next sample on.
void use_own_jpeg(bool wanted);

}  // namespace carya::transforms
