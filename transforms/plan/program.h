#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transforms/ops/apply.h"
#include "transforms/ops/audio/audio_op.h"
#include "transforms/ops/color.h"
#include "transforms/ops/decode.h"
#include "transforms/ops/encoded/decode_raw.h"
#include "transforms/ops/geometry.h"
#include "transforms/ops/objects/boxes.h"
#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"
#include "transforms/plan/point_chain.h"
#include "transforms/simd/patience.h"

namespace carya::transforms {

/// All that happens to the pixels of one field, compiled.
struct FieldProgram {
  enum class Kind : std::uint8_t {
    kCopy,     ///< the result has the bytes of the source
    kArray,    ///< point ops on a row of an array
    kPicture,  ///< pixels that are decoded or moved
    kAudio,    ///< audio that is decoded or changed
    kLength,   ///< how much of an audio field is no padding
    kObjects,  ///< boxes, or what goes with them
  };
  Kind kind = Kind::kCopy;
  std::string name;                     ///< the name of the source's field
  std::size_t source = 0;               ///< the index of that field; another view may share it
  bool extra = false;                   ///< an image other than the main one
  const DecodeImage* decode = nullptr;  ///< kPicture: set if the source is encoded
  std::size_t decoder = 0;              ///< the index of its decoder in the scratch
  std::size_t first_step_op = 0;        ///< kPicture: the first step op behind its decode
  std::size_t first_geometric = 0;      ///< kPicture: the first step op where all images must have one size
  std::vector<std::int64_t> source_shape;   ///< the shape of an array's row
  std::vector<std::int64_t> picture_shape;  ///< kPicture: the shape before the point ops
  std::int64_t in_bytes = -1;               ///< -1: encoded
  std::int64_t out_bytes = -1;              ///< -1: unknown shape
  std::optional<PointChain> chain;
  struct AudioStep {
    const AudioOp* op = nullptr;
    DrawKey key{};
  };
  std::vector<AudioStep> audio_steps;  ///< kAudio
  FieldState first_state;              ///< kAudio: the field before them
  std::size_t sound = 0;  ///< kAudio: the index of its clip in the scratch; kLength: of its audio's
};

/// Whether an op runs for a sample: always, or if the group that it is in draws so.
struct Gate {
  const RandomApply* group = nullptr;
  DrawKey key{};

  bool open(const SampleId& id) const {
    if (!group) return true;
    SampleRng rng = key.at(id.epoch, id.record, id.occurrence);
    return group->applies(rng);
  }
};

inline constexpr int kEveryView = -1;

/// The objects of a sample: their fields, and where in the chain they begin to follow the pixels.
struct ObjectProgram {
  const BoxesOp* op = nullptr;  ///< null: there are none
  /// Whether the part of the plan has the op: then its inputs are as the source has them. Else an earlier part made them.
  bool from_source = false;
  std::size_t image = 0;  ///< the field of the main image
  std::size_t boxes = 0;  ///< the fields; kNoField: there is none
  std::size_t key_points = FieldState::kNoField;
  std::size_t count = FieldState::kNoField;  ///< of the result
  /// The field of the inputs that counts the objects; kNoField: each row of `boxes` is one.
  std::size_t count_before = FieldState::kNoField;
  struct Rows {
    std::size_t field = 0;
    std::size_t row_bytes = 0;
  };
  std::vector<Rows> rows;
  std::size_t key_points_each = 0;  ///< of one object
  std::size_t objects_max = 0;
};

/// One geometric, color or object op of the chain, with the key of its random numbers.
struct StepOp {
  const GeometricOp* geometric = nullptr;
  const ColorOp* color = nullptr;
  const ObjectOp* objects = nullptr;
  DrawKey key{};
  Gate gate{};
  int view = kEveryView;        ///< the view whose size it follows
  std::uint64_t fields = 0;     ///< a bit for each field that it takes
  std::uint8_t ends_stage = 0;  ///< the number, from 1, of the profile's stage that ends with it; 0: none
};

/// A pipeline with its ops in the order in which they run: per op for the reference path, per field for the fused one.
/// A group is replaced by its ops, each behind the group's gate. Immutable.
struct Program {
  std::shared_ptr<const Pipeline> pipeline;
  PlanOptions options;
  std::vector<SourceField> inputs;
  std::vector<TensorSpec> outputs;
  struct OpProgram {
    const Op* op = nullptr;
    std::size_t index = 0;            ///< in the pipeline; for an op inside a group or views, their index
    std::vector<std::size_t> fields;  ///< the fields that it takes
    std::vector<FieldState> before;   ///< all fields before it; each view stands in its own place
    DrawKey key{};
    Gate gate{};
    int view = kEveryView;
  };
  std::vector<OpProgram> ops;
  std::vector<StepOp> step_ops;
  std::vector<FieldProgram> fields;
  std::vector<std::size_t> pictures;  ///< the indices of fields of kPicture
  /// The inputs whose bytes are taken for arrays, by their index.
  struct RawField {
    std::size_t field = 0;
    const DecodeRaw* op = nullptr;
  };
  std::vector<RawField> raws;
  /// The two fields that the views of one picture become. The second is the last field. Before the op that makes it,
  /// ops that take the first field take it too.
  std::optional<std::array<std::size_t, 2>> views;
  ObjectProgram objects;
  std::size_t decoders = 0;
  std::size_t sounds = 0;        ///< fields of kAudio
  bool decodes_windows = false;  ///< whether a decode is limited to what later crops need
  struct Stage {
    std::string name;
    std::vector<std::uint32_t> ops{};  ///< indices in the pipeline, in the order in which they run
  };
  std::vector<Stage> stages;    ///< stages of the profile: decode, ops on pictures, ops on arrays
  std::size_t store_stage = 0;  ///< the stage that ends when a picture is in its place

  ImageLimits limits() const { return {options.image_pixels_max, options.jpeg_scans_max}; }
};

/// The indices of a pipeline's ops in the order in which they run. Errors: kInvalidArgument, if the options' order does
/// not have each once.
Result<std::vector<std::size_t>> running_order(const Pipeline& pipeline, const PlanOptions& options);
/// The keys of random numbers of each op, by its index: its own (views have none) and then those of the ops inside of
/// it, which count as if they stood in the chain. They belong to the declared place, whatever runs when.
std::vector<std::vector<DrawKey>> keys_of_ops(const Pipeline& pipeline, std::uint64_t seed);

/// Take a pipeline apart. Errors: those of Plan::compile().
Result<Program> compile_program(std::shared_ptr<const Pipeline> pipeline, const PlanOptions& options);

/// Run one op after the other on whole tensors: the definition of a pipeline's result, for any shape. Errors: kCorrupt,
/// kExhausted, kTimeout (`patience` ended it; null: never). Cost: memory for every intermediate.
Result<std::vector<OwnedTensor>> run_op_by_op(const Program& program, const SampleId& id,
                                              std::span<const std::span<const std::byte>> inputs,
                                              Patience* patience = nullptr);

/// Run all ops of an audio field on a sample. `input`: its bytes; `length`: those of its length field, if it has one.
/// Errors: those of Plan::run(), with op and field; kUnsupported (a library is not on this machine).
Status run_audio(const FieldProgram& field, const SampleId& id, std::span<const std::byte> input,
                 std::span<const std::byte> length, AudioClip& clip);

/// Note the inputs that the ops take for arrays.
void find_raws(Program& program);
/// Check the lengths of the inputs that are taken for arrays. Errors: kCorrupt.
Status check_raws(const Program& program, std::span<const std::span<const std::byte>> inputs);

/// The bytes of the input of a picture that is decoded already and has this size.
std::uint64_t pixel_bytes(const FieldProgram& field, ImageSize size);

/// Begin the objects of a sample, whose main image has this size before the op boxes. Errors: kCorrupt.
Status load_objects(const ObjectProgram& program, std::span<const std::span<const std::byte>> inputs,
                    ImageSize size, Objects& objects);
/// Write all fields of the objects. `outputs` has one entry for each field of the result.
void store_objects(const ObjectProgram& program, std::span<const std::span<const std::byte>> inputs,
                   const Objects& objects, std::span<std::byte* const> outputs);

/// Turn the codec's error into the sample's: "decode_image: not a JPEG or PNG". It names the field unless that is
/// `image`.
std::unexpected<Error> decode_failed(const std::string& field, const Error& error);

/// Check the pictures that `op` makes by its steps, from `first` on, against a lowered limit of pixels. The ops check
/// the ordinary limit themselves. Errors: kCorrupt.
Status check_steps(const PlanOptions& options, const Op& op, const StepList& steps, std::size_t first);
/// The error of a sample whose images have different sizes.
std::unexpected<Error> size_mismatch(const Op& op, ImageSize first, const std::string& field, ImageSize size);

}  // namespace carya::transforms
