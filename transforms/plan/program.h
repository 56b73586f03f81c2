#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transforms/ops/apply.h"
#include "transforms/ops/color.h"
#include "transforms/ops/decode.h"
#include "transforms/ops/geometry.h"
#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"
#include "transforms/plan/point_chain.h"

namespace carya::transforms {

/// Everything the pixels of one field go through, compiled.
struct FieldProgram {
  enum class Kind : std::uint8_t {
    kCopy,     ///< the source's bytes are the result
    kArray,    ///< point ops on a row of an array
    kPicture,  ///< pixels that are decoded or moved
  };
  Kind kind = Kind::kCopy;
  std::string name;                         ///< of the source's field
  std::size_t source = 0;                   ///< that field: another view of it may be a field too
  bool extra = false;                       ///< an image other than the main one
  const DecodeImage* decode = nullptr;      ///< kPicture: of an encoded field
  std::size_t decoder = 0;                  ///< which decoder of the scratch
  std::size_t first_step_op = 0;            ///< kPicture: step ops before this one came before its decode
  std::size_t first_geometric = 0;          ///< kPicture: the step op where its size meets that of the others
  std::vector<std::int64_t> source_shape;   ///< of an array's row
  std::vector<std::int64_t> picture_shape;  ///< kPicture: before the point ops
  std::int64_t in_bytes = -1;               ///< -1: encoded
  std::int64_t out_bytes = -1;              ///< -1: unknown shape
  std::optional<PointChain> chain;
};

/// Whether an op is done for a sample: always, or as the group draws that it is in.
struct Gate {
  const RandomApply* group = nullptr;
  Philox4x32::Key key{};

  bool open(const SampleId& id) const {
    if (!group) return true;
    SampleRng rng(key, id.epoch, id.record, id.occurrence);
    return group->applies(rng);
  }
};

inline constexpr int kEveryView = -1;

/// One geometric or color op of the chain, and the key of its random numbers.
struct StepOp {
  const GeometricOp* geometric = nullptr;
  const ColorOp* color = nullptr;
  Philox4x32::Key key{};
  Gate gate{};
  int view = kEveryView;        ///< which view's size it follows
  std::uint64_t fields = 0;     ///< a bit for each field that it takes
  std::uint8_t ends_stage = 0;  ///< number of the profile's stage that ends with it, from 1; 0: none
};

/// A pipeline taken apart, its ops in the order in which they run: per op for the reference path, per field
/// for the fused one. A group is the ops that it does, each behind the group's gate. Immutable.
struct Program {
  std::shared_ptr<const Pipeline> pipeline;
  PlanOptions options;
  std::vector<SourceField> inputs;
  std::vector<TensorSpec> outputs;
  struct OpProgram {
    const Op* op = nullptr;
    std::size_t index = 0;            ///< of it, or of the group or views that it is in, in the pipeline
    std::vector<std::size_t> fields;  ///< which it takes
    std::vector<FieldState> before;   ///< all fields before it, each view in the view's place
    Philox4x32::Key key{};
    Gate gate{};
    int view = kEveryView;
  };
  std::vector<OpProgram> ops;
  std::vector<StepOp> step_ops;
  std::vector<FieldProgram> fields;
  std::vector<std::size_t> pictures;  ///< fields of kPicture
  /// The two fields that views of one picture become. The second is the last field; before the op that makes
  /// it, what takes the first takes it too.
  std::optional<std::array<std::size_t, 2>> views;
  std::size_t decoders = 0;
  bool decodes_windows = false;  ///< of a picture only what the crops behind its decode leave
  struct Stage {
    std::string name;
    std::vector<std::uint32_t> ops{};  ///< of the pipeline, as they run
  };
  std::vector<Stage> stages;    ///< of the profile: decode, the pictures' ops, the arrays' ops
  std::size_t store_stage = 0;  ///< the one that ends with a picture in its place

  ImageLimits limits() const { return {options.image_pixels_max, options.jpeg_scans_max}; }
};

/// Errors: as Plan::compile() says.
Result<Program> compile_program(std::shared_ptr<const Pipeline> pipeline, const PlanOptions& options);

/// One op after the other, each whole: the definition of a pipeline's result, for any shape.
/// Errors: kCorrupt, kExhausted. Cost: memory for every intermediate.
Result<std::vector<OwnedTensor>> run_op_by_op(const Program& program, const SampleId& id,
                                              std::span<const std::span<const std::byte>> inputs);

/// The codec's complaint as the sample's: "decode_image: not a JPEG or PNG", with the field's name unless it
/// is `image`.
std::unexpected<Error> decode_failed(const std::string& field, const Error& error);

/// Whether the pictures that an op's steps, from `first` on, make keep a lowered limit. The ops themselves
/// keep the ordinary one. Errors: kCorrupt.
Status check_steps(const PlanOptions& options, const Op& op, const StepList& steps, std::size_t first);
/// A sample whose images have different sizes.
std::unexpected<Error> size_mismatch(const Op& op, ImageSize first, const std::string& field, ImageSize size);

}  // namespace carya::transforms
