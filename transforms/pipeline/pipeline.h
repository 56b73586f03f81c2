#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "transforms/op/op.h"
#include "transforms/op/order_hints.h"
#include "transforms/op/tensor.h"

namespace carya::transforms {

/// What a source gives for each record, field by field. The loader fills it from the dataset; transforms
/// never opens a file.
struct SourceField {
  enum class Kind : std::uint8_t {
    kEncoded,  ///< bytes of a file: JPEG, PNG, ...
    kTensor,   ///< a row of an array: spec says dtype and shape
    kLabel,    ///< int64 scalar from the manifest
  };
  Kind kind = Kind::kEncoded;
  TensorSpec spec;  ///< name always; dtype and shape for kTensor and kLabel
};

enum class OnError : std::uint8_t { kRaise, kReplace, kMask };

/// How records become steps (DESIGN section 4). Exactly one of batch_size (per rank) and global_size is set.
struct BatchSpec {
  std::int64_t batch_size = 0;
  std::int64_t global_size = 0;
  bool drop_last = false;
  bool pad_last = false;
};

/// One line of what the user sees when the pipeline is printed.
struct PipelineLine {
  std::string text;                 ///< "random_resized_crop(size=[224, 224], scale=[0.08, 1.0], ...)"
  std::vector<TensorSpec> tensors;  ///< shapes and dtypes after this line
};

/// The logical chain a user wrote: source, dataset views, shuffle, ops, batch. Immutable. Parsed from the
/// JSON document that Python builds (transforms/FORMAT.md): every parameter, and every shape an op is given,
/// is checked here; an error names op, parameter, what was given and what to give. Threads: const is
/// thread-safe.
class Pipeline {
 public:
  /// Errors: kInvalidArgument. The document comes from a user or a socket: hostile until checked.
  static Result<std::shared_ptr<const Pipeline>> parse(std::string_view json);

  const std::string& source_json() const;  ///< the "source" object, for the loader
  const std::vector<SourceField>& fields()
      const;                              ///< derived from the source object: what each record brings
  const std::string& views_json() const;  ///< the "views" array: [{"view":"take","count":10}, ...]
  bool shuffled() const;
  std::uint64_t seed() const;  ///< of shuffle(seed=), default 0
  const std::vector<std::unique_ptr<Op>>& ops() const;
  const std::vector<OrderHints>& order_hints() const;  ///< of each op
  /// Ascending: no op passes from before op b to behind it; 0 .. number of ops.
  const std::vector<std::size_t>& barriers() const;
  const std::optional<BatchSpec>& batch() const;
  const std::vector<TensorSpec>& outputs() const;  ///< after the last op
  const std::vector<PipelineLine>& lines() const;
  /// The canonical JSON: parse(to_json()) is the same pipeline, with the same text.
  const std::string& to_json() const;
  /// Ops, parameters, op versions, on_error, codec names and versions (DESIGN section 4); not the source, not
  /// the batch, not the hints of the order: they change no bit.
  /// `order`: of a stream whose ops run in one with other bits; empty when they are the declared ones.
  Hash128 fingerprint(OnError on_error, const std::vector<std::size_t>& order = {}) const;

 private:
  Pipeline() = default;
  friend class PipelineParser;

  std::string source_json_;
  std::vector<SourceField> fields_;
  std::string views_json_;
  std::optional<std::uint64_t> shuffle_seed_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<OrderHints> order_hints_;
  std::vector<std::size_t> barriers_;
  std::optional<BatchSpec> batch_;
  std::vector<TensorSpec> outputs_;
  std::vector<PipelineLine> lines_;
  std::string json_;
};

}  // namespace carya::transforms
