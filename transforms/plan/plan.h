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

namespace carya {
class BandRunner;
}

namespace carya::transforms {

/// A sample. With the seed, it determines all random numbers (DESIGN section 4).
struct SampleId {
  std::uint64_t epoch = 0;
  std::uint64_t record = 0;
  std::uint64_t occurrence = 0;  ///< 0 at the record's own position, 1 + position for a substitute
};

struct PlanOptions {
  std::uint64_t seed = 0;
  bool fuse = true;  ///< false: run each op on whole pictures; the reference for tests
  /// Pictures that declare more pixels are kCorrupt. The default is twice Pillow's limit for decompression bombs, where
  /// Pillow fails too. A lower value also limits the pictures that ops make.
  std::uint64_t image_pixels_max = 178'956'970;
  /// The nanoseconds that the operations of one sample may take, by their assumed costs (PassPrice). A sample with more
  /// is kCorrupt before they begin. UINT64_MAX: no limit.
  std::uint64_t sample_ns_max = UINT64_MAX;
  std::uint32_t jpeg_scans_max = 500;  ///< more scans than this are kCorrupt
  /// The indices of the pipeline's ops in the order in which they run; empty: as declared. Each op keeps the random
  /// numbers of its declared place. The caller guarantees that this order yields the declared result (commutes()).
  std::vector<std::size_t> order{};
  /// The part of the plan to compile: the ops at places [first, last) of that order. Its inputs are the tensors that
  /// the ops before `first` make, on another machine. Parts that follow each other give the bits of the whole plan.
  std::size_t first = 0;
  std::size_t last = SIZE_MAX;  ///< more than the number of ops: to the end
  /// Whether the part may also begin or end where uint8 pictures have no fixed size (Plan::pack(), packing.h).
  bool packed = false;
};

/// The cost of one stage, as loader.stats() shows it. One sample in 32 is timed, or fewer where timing would cost more
/// than about 1 %.
struct OpProfile {
  std::string name;                 ///< the fused ops joined by '+': "decode_image+random_resized_crop"
  std::uint64_t samples = 0;        ///< all samples
  std::uint64_t timed_samples = 0;  ///< those that were timed; all numbers below are of them
  std::uint64_t cpu_ns = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  /// The stage's ops by their index in the pipeline, in the order in which they run.
  std::vector<std::uint32_t> ops{};
  // A stage that decodes counts the pictures that it opened, with their whole sizes.
  std::uint64_t pictures = 0;
  std::uint64_t height = 0;  ///< sum over the pictures
  std::uint64_t width = 0;   ///< sum over the pictures
};

/// JPEG pictures by the decoder that decoded them, as loader.stats() shows it.
struct DecodePaths {
  std::uint64_t own = 0;       ///< transforms/jpeg
  std::uint64_t packed = 0;    ///< packed coefficients that were kept (transforms/coefficients)
  std::uint64_t turbo = 0;     ///< libjpeg-turbo
  std::uint64_t warnings = 0;  ///< damage inside a scan that libjpeg-turbo concealed
  // What the cost of decoding depends on (see DecodeCounts):
  std::uint64_t indexed = 0;     ///< those of `own` that began at points of a stored index
  std::uint64_t scan_bytes = 0;  ///< an estimate of the compressed bytes that were read
  std::uint64_t pixels = 0;      ///< pixels that were decoded
};

/// The memory and counters of one thread that runs plans: decoder state, bands of rows, tables. It grows to the needs
/// of the largest sample; then it allocates nothing. Threads: owner only.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(Scratch&&) noexcept;
  Scratch& operator=(Scratch&&) noexcept;
  struct Impl;
  Impl& impl() { return *impl_; }
  /// Set a function that is asked between the steps of a picture and, about once a millisecond, during steps that may
  /// take long. If it returns false, the sample ends with kTimeout. Single passes over values do not ask it. Empty:
  /// never end a sample.
  void set_go_on(std::function<bool()> go_on);
  /// Run large pictures of later samples in bands on `runner`, which outlives them (null: no bands). It changes no bit.
  void set_bands(BandRunner* runner);

 private:
  std::unique_ptr<Impl> impl_;
};

/// The physical form of a pipeline: fused stages that write into given memory. Immutable. Threads: const is
/// thread-safe, with one Scratch per thread.
class Plan {
 public:
  /// Compile the pipeline. Errors: kInvalidArgument: a batch of unknown shapes; an order that does not have each op
  /// once, in which an op cannot take its input, or that makes other tensors; a part that begins or ends where a field
  /// is encoded or has an unknown shape (except the source itself).
  static Result<std::shared_ptr<const Plan>> compile(std::shared_ptr<const Pipeline> pipeline,
                                                     const PlanOptions& options);
  virtual ~Plan() = default;

  /// The inputs of run(): the pipeline's fields(), or the tensors that the ops before the part make.
  virtual const std::vector<SourceField>& inputs() const = 0;
  /// The fixed shapes of run()'s `outputs`, in order.
  virtual const std::vector<TensorSpec>& outputs() const = 0;
  /// Whether only those parts of pictures are decoded that later crops need; then an index saves time.
  virtual bool decodes_windows() const = 0;
  /// Whether pictures are decoded from the field of inputs() by its number, nothing else is made of it, and run() takes
  /// packed coefficients in its place (FieldIndex::packed).
  virtual bool takes_packed([[maybe_unused]] std::size_t field) const { return false; }

  /// Compute one sample into given memory.
  ///
  /// `inputs` has one span for each field of inputs(), in order (a label has 8 bytes). An encoded input has at least 1
  /// readable byte behind its end. `outputs[i]` has outputs()[i].bytes() bytes and any alignment; all bytes are written
  /// on success and unspecified on error.
  ///
  /// `indexes` is empty, or has one entry for each field. The entries of encoded fields are used, and their out members
  /// set, also on error. They change no bit. An unfused plan and fields that are no JPEG ignore them.
  ///
  /// Errors: kCorrupt: the sample is bad data; `message` has stage and reason ("decode_image: not a JPEG or PNG (starts
  /// with 52 49 46 46: WebP)"). kExhausted: a decoder's library had no memory, which is no fault of the sample (our own
  /// allocations throw std::bad_alloc). kTimeout: Scratch::set_go_on() ended it. kNotFound: only behind a place before
  /// all ops (source_parts.h). Any other code is a bug.
  virtual Status run(Scratch& scratch, const SampleId& id, std::span<const std::span<const std::byte>> inputs,
                     std::span<std::byte* const> outputs, std::span<FieldIndex> indexes = {}) const = 0;

  /// Gives memory for so many bytes; null if there is none.
  using PackRoom = std::function<std::byte*(std::uint64_t bytes)>;
  /// Compute one sample as run() does, into one piece of memory (packing.h) that may have pictures of any size. `room`
  /// is asked once, when the sizes are known. Errors: those of run(); kExhausted if `room` gave nothing.
  virtual Status pack(Scratch& scratch, const SampleId& id,
                      std::span<const std::span<const std::byte>> inputs, const PackRoom& room,
                      std::span<FieldIndex> indexes = {}) const = 0;
  /// Point `inputs`, one for each of inputs(), into a sample that pack() of the part before this one made.
  virtual void unpack(std::span<const std::byte> packed,
                      std::span<std::span<const std::byte>> inputs) const = 0;
  /// Whether bytes that come from elsewhere can be such a sample: every tensor, and every picture by the size that stands
  /// before it, lies within them, and nothing is left. unpack() asks nothing.
  virtual bool can_unpack([[maybe_unused]] std::span<const std::byte> packed) const { return false; }

  /// Compute one sample op by op, with any shape, for debugging. The bits are those of run().
  virtual Result<std::vector<OwnedTensor>> sample(
      const SampleId& id, std::span<const std::span<const std::byte>> inputs) const = 0;

  /// Add the counters of `scratch` to `total`, one entry for each stage in a fixed order, and clear them. Its owner
  /// calls this.
  virtual void collect_profile(Scratch& scratch, std::vector<OpProfile>& total) const = 0;
  /// Add the decodes of `scratch` to `total`, and clear them. Its owner calls this.
  virtual void collect_decodes(Scratch& scratch, DecodePaths& total) const = 0;
};

/// Send ordinary JPEGs to our own decoder (`wanted`, the default), or all JPEGs to libjpeg-turbo, with the same bits.
/// It holds for the whole process from the next sample on. Tests and benches use it.
void use_own_jpeg(bool wanted);

}  // namespace carya::transforms
