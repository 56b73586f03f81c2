#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "transforms/op/op.h"
#include "transforms/op/order_hints.h"
#include "transforms/op/tensor.h"

namespace carya::transforms {

/// One field of each record of a source. The loader derives it from the dataset; transforms never opens a file.
struct SourceField {
  enum class Kind : std::uint8_t {
    kEncoded,  ///< the bytes of a file: JPEG, PNG, ...
    kTensor,   ///< a row of an array, with the dtype and shape of `spec`
    kLabel,    ///< an int64 scalar of the manifest
  };
  Kind kind = Kind::kEncoded;
  /// Its name is always set; dtype and shape are set for kTensor and kLabel. A first side of -1: a kTensor whose rows
  /// differ in number between records.
  TensorSpec spec;
  std::int64_t rows_max = -1;  ///< of such a tensor: the most rows that a record has; else -1

  /// What FieldState says of audio, for a kTensor that has been decoded: of a part of a chain behind a function.
  struct Sound {
    std::int64_t rate = 0;
    bool spectrum = false;
    bool time_first = false;
    std::int64_t power = 0;
    std::string length;  ///< the field that counts what is no padding; "" for none
  };
  std::optional<Sound> sound;
};

enum class OnError : std::uint8_t { kRaise, kReplace, kMask };

/// How records become steps (DESIGN section 4). Exactly one of batch_size (per rank) and global_size is set.
struct BatchSpec {
  std::int64_t batch_size = 0;
  std::int64_t global_size = 0;
  bool drop_last = false;
  bool pad_last = false;
};

/// One line of a printed pipeline.
struct PipelineLine {
  std::string text;                 ///< "random_resized_crop(size=[224, 224], scale=[0.08, 1.0], ...)"
  std::vector<TensorSpec> tensors;  ///< the tensors after this line
};

/// The logical chain that a user wrote: source, dataset views, shuffle, ops, batch. It is parsed from the JSON document
/// that Python builds (transforms/FORMAT.md). Parsing checks every parameter and the shapes that each op gets; an error
/// names op, parameter, what was given and what to give. Immutable. Threads: const is thread-safe.
class Pipeline {
 public:
  /// Parse a document, which comes from a user or a socket and is hostile until checked. Errors: kInvalidArgument.
  static Result<std::shared_ptr<const Pipeline>> parse(std::string_view json);

  const std::string& source_json() const;  ///< the "source" object, for the loader
  /// The fields of each record, derived from the source object.
  const std::vector<SourceField>& fields() const;
  const std::string& views_json() const;  ///< the "views" array: [{"view":"take","count":10}, ...]
  /// The "records" object: which records a stream goes through, and how often; "" for each once.
  const std::string& records_json() const;
  bool shuffled() const;
  std::uint64_t seed() const;  ///< the seed of shuffle(seed=); by default 0
  const std::vector<std::unique_ptr<Op>>& ops() const;
  const std::vector<OrderHints>& order_hints() const;  ///< one for each op
  /// For each value b, no op passes the place before op b. Ascending, in 0..number of ops.
  const std::vector<std::size_t>& barriers() const;
  /// Which epochs share the random numbers of an op, by its index: those of reuse_augmentation(epochs=) for the ops
  /// before it, of the others none.
  const EpochGroups& epoch_groups(std::size_t op) const;
  /// The part of a chain with Python functions whose random numbers an op has, by its index; none: those of the chain
  /// itself. What stands behind the n-th function is a part of its own, also where it runs before the function.
  std::optional<std::uint32_t> part(std::size_t op) const;
  const std::optional<BatchSpec>& batch() const;
  const std::vector<TensorSpec>& outputs() const;  ///< the tensors after the last op
  const std::vector<PipelineLine>& lines() const;
  /// The canonical JSON. parse(to_json()) gives the same pipeline with the same text.
  const std::string& to_json() const;
  /// A hash of the ops, their parameters and versions, reuse_augmentation, on_error, and the codecs with their versions
  /// (DESIGN section 4). Source, batch and order hints change no bit and are left out. `order`: of a stream whose ops run
  /// in an order with other bits; empty for the declared one.
  Hash128 fingerprint(OnError on_error, const std::vector<std::size_t>& order = {}) const;

 private:
  Pipeline() = default;
  friend class PipelineParser;

  std::string source_json_;
  std::vector<SourceField> fields_;
  std::string views_json_;
  std::string records_json_;
  std::optional<std::uint64_t> shuffle_seed_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<OrderHints> order_hints_;
  std::vector<std::size_t> barriers_;
  std::size_t reuse_ops_ = 0;  // so many ops from the first on share their numbers as reuse_groups_ says
  EpochGroups reuse_groups_;
  std::vector<std::pair<std::size_t, std::uint32_t>> parts_;  // from which op on, and which; ascending
  std::optional<BatchSpec> batch_;
  std::vector<TensorSpec> outputs_;
  std::vector<PipelineLine> lines_;
  std::string json_;
};

}  // namespace carya::transforms
