#include "transforms/plan/program.h"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "transforms/ops/encoded/transcode.h"
#include "transforms/pipeline/source.h"
#include "transforms/plan/packing.h"

namespace carya::transforms {
namespace {

// Whether an op has an entry among the program's step ops.
bool is_step(OpKind kind) {
  return kind == OpKind::kGeometric || kind == OpKind::kColor || kind == OpKind::kObjects;
}

bool is_audio(const FieldState& state) {
  return state.form == FieldState::Form::kAudio || state.form == FieldState::Form::kSpectrum;
}

Status check_fixed(const Pipeline& pipeline, const std::vector<FieldState>& states) {
  if (!pipeline.batch()) return {};
  for (const FieldState& state : states) {
    if (state.spec.bytes() >= 0) continue;
    const bool encoded = state.form == FieldState::Form::kEncoded;
    return fail(
        Code::kInvalidArgument,
        "batch: " + state.spec.name + " is " + state.spec.to_string() + " after " +
            (pipeline.ops().empty() ? "the source" : pipeline.ops().back()->name()) +
            (state.form == FieldState::Form::kTensor
                 ? "; give fixed shapes: put boxes(...) behind decode_image"
             : is_audio(state) ? "; give one length to all clips: add crop_audio or pad_audio"
             : encoded ? " and still encoded; give fixed shapes: add decode_image and a crop or resize, or "
                         "decode_audio and crop_audio or pad_audio"
                       : "; give fixed shapes: add random_resized_crop, random_crop, center_crop or "
                         "resize(size=[height, width])"));
  }
  return {};
}

// Takes the chain apart op by op: what each takes, its key, its place among the steps.
class OpTaker {
 public:
  OpTaker(Program& program, std::vector<FieldState> before) : program_(program), states_(std::move(before)) {}

  Result<std::vector<FieldState>> take_all(std::span<const std::size_t> order) {
    find_views(order);
    const auto& ops = program_.pipeline->ops();
    const auto keys = keys_of_ops(*program_.pipeline, program_.options.seed);
    for (const std::size_t i : order) {
      keys_ = keys[i];
      index_ = i;
      if (ops[i]->traits().kind == OpKind::kViews)
        TRY(take_views(*ops[i]));
      else
        TRY(take(*ops[i]));
      CHECK(keys_.empty());
    }
    return std::move(states_);
  }

 private:
  // Before anything is taken, so that what comes before the views knows of the second.
  void find_views(std::span<const std::size_t> order) {
    for (const std::size_t i : order)
      if (program_.pipeline->ops()[i]->traits().kind == OpKind::kViews)
        for (std::size_t f = 0; f < states_.size(); ++f)
          if (states_[f].spec.name == kMainField) program_.views = {f, states_.size()};
  }

  DrawKey next_key() {
    const DrawKey key = keys_.front();
    keys_ = keys_.subspan(1);
    return key;
  }

  Status take(const Op& op) {
    const DrawKey key = next_key();
    if (op.traits().kind != OpKind::kGroup) return take_one(op, key, {});
    const Gate gate{static_cast<const RandomApply*>(&op), key};
    for (const auto& inner : op.inner()) TRY(take_one(*inner, next_key(), gate));
    return {};
  }

  Status take_one(const Op& op, DrawKey key, const Gate& gate) {
    Program::OpProgram entry{
        .op = &op, .index = index_, .before = states_, .key = key, .gate = gate, .view = view_};
    TRY(op.infer(states_, entry.fields));
    if (view_ == 1) {
      // The ops of the second view know it by the name and place of the first.
      entry.before.push_back(entry.before[(*program_.views)[0]]);
      entry.fields = {(*program_.views)[1]};
    }
    StepOp step{.key = key, .gate = gate, .view = view_};
    for (const std::size_t f : entry.fields) step.fields |= std::uint64_t{1} << f;
    if (program_.views && !seen_twice_ && (step.fields >> (*program_.views)[0] & 1) != 0)
      step.fields |= std::uint64_t{1} << (*program_.views)[1];
    if (op.traits().kind == OpKind::kGeometric) step.geometric = static_cast<const GeometricOp*>(&op);
    if (op.traits().kind == OpKind::kColor) step.color = static_cast<const ColorOp*>(&op);
    if (op.traits().kind == OpKind::kObjects) step.objects = static_cast<const ObjectOp*>(&op);
    if (step.geometric || step.color || step.objects) program_.step_ops.push_back(step);
    program_.ops.push_back(std::move(entry));
    return {};
  }

  Status take_views(const Op& op) {
    const std::vector<FieldState> before = states_;
    program_.ops.push_back({.op = &op, .index = index_, .fields = {(*program_.views)[0]}, .before = before});
    seen_twice_ = true;
    for (view_ = 0; view_ < 2; ++view_) {
      states_ = before;
      for (const auto& inner : op.inner()) TRY(take(*inner));
    }
    view_ = kEveryView;
    states_ = before;
    std::vector<std::size_t> views;
    return op.infer(states_, views);
  }

  Program& program_;
  std::vector<FieldState> states_;  // inside of views: those of the view that is taken
  std::size_t index_ = 0;           // of the op that is taken
  std::span<const DrawKey> keys_;   // of the op that is taken, those not used yet
  int view_ = kEveryView;
  bool seen_twice_ = false;
};

std::unexpected<Error> wrong_order(const std::string& why) {
  return fail(Code::kInvalidArgument, "plan: the ops cannot run in this order: " + why);
}

Status check_end(const Program& program, const std::vector<FieldState>& states) {
  for (std::size_t f = 0; f < states.size(); ++f)
    if (states[f].spec != program.pipeline->outputs()[f])
      return wrong_order(states[f].spec.name + " ends as " + states[f].spec.to_string() + ", declared is " +
                         program.pipeline->outputs()[f].to_string());
  return {};
}

// Whether a part may begin or end behind these ops. Files that were made anew may go from part to part.
Status check_cut(const Program& program, std::span<const std::size_t> ops,
                 const std::vector<FieldState>& states) {
  const PlanOptions& options = program.options;
  const bool transcoded =
      options.packed && ops.size() == 1 && as_transcode(*program.pipeline->ops()[ops.front()]) != nullptr;
  for (const FieldState& state : states)
    if (state.form == FieldState::Form::kEncoded
            ? !transcoded
            : state.spec.bytes() < 0 && !(options.packed && can_pack(state)))
      return fail(Code::kInvalidArgument,
                  "plan: a part ends where " + state.spec.name + " is " + state.spec.to_string() +
                      "; give a place where everything is decoded and has a fixed shape");
  return {};
}

std::vector<SourceField> inputs_of(const std::vector<FieldState>& states) {
  std::vector<SourceField> inputs;
  for (const FieldState& state : states) {
    using Form = FieldState::Form;
    using Kind = SourceField::Kind;
    inputs.push_back({state.form == Form::kLabel     ? Kind::kLabel
                      : state.form == Form::kEncoded ? Kind::kEncoded
                                                     : Kind::kTensor,
                      state.spec});
  }
  return inputs;
}

// What the ops before the part make of the source: states and fields.
Result<std::vector<FieldState>> begin_part(Program& program, std::span<const std::size_t> before) {
  program.inputs = program.pipeline->fields();
  std::vector<FieldState> source = initial_states(program.inputs);
  if (before.empty()) return source;
  Program elsewhere{.pipeline = program.pipeline, .options = program.options};
  auto states = OpTaker(elsewhere, std::move(source)).take_all(before);
  if (!states) return wrong_order(states.error().message);
  TRY(check_cut(program, before, *states));
  program.inputs = inputs_of(*states);
  return states;
}

// All ops of the part; gives the states after the last one, and in `first_states` those before the first one.
Result<std::vector<FieldState>> take_ops(Program& program, std::vector<FieldState>& first_states) {
  ASSIGN(const std::vector<std::size_t> order, running_order(*program.pipeline, program.options));
  const std::span all(order);
  const std::size_t last = std::min(program.options.last, order.size());
  const std::size_t first = std::min(program.options.first, last);
  ASSIGN(std::vector<FieldState> before, begin_part(program, all.first(first)));
  first_states = before;
  auto states = OpTaker(program, std::move(before)).take_all(all.subspan(first, last - first));
  if (!states) return wrong_order(states.error().message);  // the declared one was checked at parsing
  if (last == order.size())
    TRY(check_end(program, *states));
  else
    TRY(check_cut(program, all.first(last), *states));
  for (const FieldState& state : *states) program.outputs.push_back(state.spec);
  return states;
}

// The ops of an audio field; none: it is no such field, or stays as it is.
void take_audio_steps(Program& program, std::size_t index, FieldProgram& field) {
  for (const Program::OpProgram& entry : program.ops) {
    if (entry.op->traits().kind != OpKind::kAudio) continue;
    if (std::ranges::find(entry.fields, index) == entry.fields.end()) continue;
    if (field.audio_steps.empty()) field.first_state = entry.before[index];
    field.audio_steps.push_back({static_cast<const AudioOp*>(entry.op), entry.key});
  }
  if (field.audio_steps.empty()) return;
  field.kind = FieldProgram::Kind::kAudio;
  field.sound = program.sounds++;
}

// Lengths of audio that this part of the plan changes.
void find_lengths(Program& program, const std::vector<FieldState>& states) {
  for (std::size_t f = 0; f < states.size(); ++f) {
    if (program.fields[f].kind != FieldProgram::Kind::kAudio ||
        states[f].length_field == FieldState::kNoField)
      continue;
    FieldProgram& length = program.fields[states[f].length_field];
    length.kind = FieldProgram::Kind::kLength;
    length.sound = program.fields[f].sound;
  }
}

FieldProgram compile_field(Program& program, std::size_t index, const FieldState& last) {
  const bool second_view = program.views && index == (*program.views)[1];
  if (last.form == FieldState::Form::kObjects)
    return {.kind = FieldProgram::Kind::kObjects,
            .name = last.spec.name,
            .source = index,
            .in_bytes = index < program.inputs.size() ? program.inputs[index].spec.bytes() : 0,
            .out_bytes = last.spec.bytes()};
  if (index >= program.inputs.size() && !second_view)  // an op of the part has added it
    return {.kind = FieldProgram::Kind::kLength,
            .name = last.spec.name,
            .source = index,
            .out_bytes = last.spec.bytes()};
  const std::size_t origin = second_view ? (*program.views)[0] : index;
  const SourceField& source = program.inputs[origin];
  // The places of fields stay, whatever part this is; what views made of the main image is no extra one.
  const auto& declared = program.pipeline->fields();
  const bool extra = origin < declared.size() && declared[origin].spec.name != kMainField;
  FieldProgram field{.name = source.spec.name, .source = origin, .extra = extra};
  field.source_shape = source.spec.shape;
  field.in_bytes = source.kind == SourceField::Kind::kEncoded ? -1 : source.spec.bytes();
  field.out_bytes = last.spec.bytes();
  take_audio_steps(program, index, field);
  if (field.kind == FieldProgram::Kind::kAudio) return field;
  std::vector<PointStep> point_steps;
  const FieldState* before_points = &last;
  std::size_t steps_seen = 0;
  bool moves = false;
  bool recolors = false;
  std::size_t taken_as = origin;  // until the views part
  for (const Program::OpProgram& entry : program.ops) {
    const OpKind kind = entry.op->traits().kind;
    if (kind == OpKind::kViews) taken_as = index;
    const bool takes = std::find(entry.fields.begin(), entry.fields.end(), taken_as) != entry.fields.end();
    const DecodeRaw* const raw = takes ? as_decode_raw(*entry.op) : nullptr;
    if (raw != nullptr) {  // from here on as an array of the source
      const TensorSpec row = raw->row_of(field.name);
      field.source_shape = row.shape;
      field.in_bytes = row.bytes();
      field.first_step_op = steps_seen;
    } else if (takes && kind == OpKind::kDecode) {
      field.decode = static_cast<const DecodeImage*>(entry.op);
      field.decoder = second_view ? program.fields[origin].decoder : program.decoders++;
      field.first_step_op = steps_seen;
    }
    if (takes && kind == OpKind::kGeometric && !moves) {
      field.first_geometric = steps_seen;
      moves = true;
    }
    if (takes && kind == OpKind::kColor) recolors = true;
    if (takes && kind == OpKind::kPoint) {
      if (point_steps.empty()) before_points = &entry.before[index];
      point_steps.push_back(static_cast<const PointOp*>(entry.op)->step(entry.before[index]));
    }
    steps_seen += is_step(kind);
  }
  if (field.decode || moves || recolors) {
    field.kind = FieldProgram::Kind::kPicture;
    field.picture_shape = before_points->spec.shape;
    if (!moves) field.first_geometric = steps_seen;
    program.pictures.push_back(index);
  } else if (!point_steps.empty()) {
    field.kind = FieldProgram::Kind::kArray;
  }
  if (field.kind != FieldProgram::Kind::kCopy)
    field.chain.emplace(std::move(point_steps), before_points->spec.dtype, before_points->spec.shape);
  return field;
}

// The ops of pictures, each with the place of its step op.
struct PictureOp {
  const Op* op = nullptr;
  std::size_t index = 0;
  std::size_t step_op = 0;
  bool steps = false;
  bool grouped = false;
};

std::vector<PictureOp> picture_ops(const Program& program) {
  std::vector<PictureOp> ops;
  std::size_t steps_seen = 0;
  for (const Program::OpProgram& entry : program.ops) {
    const OpKind kind = entry.op->traits().kind;
    const bool steps = is_step(kind);
    const bool in_picture = std::ranges::any_of(
        entry.fields, [&](std::size_t f) { return program.fields[f].kind == FieldProgram::Kind::kPicture; });
    if (in_picture && !decodes_picture(*entry.op) && entry.view != 1)  // those of the first view
      ops.push_back({entry.op, entry.index, steps_seen, steps, entry.gate.group != nullptr});
    steps_seen += steps;
  }
  return ops;
}

void add_name(Program::Stage& to, const std::string& name) {
  to.name += (to.name.empty() || name.empty() ? "" : "+") + name;
}

void add_op(Program::Stage& to, const std::string& name, std::size_t index) {
  add_name(to, name);
  const auto op = static_cast<std::uint32_t>(index);
  if (std::ranges::find(to.ops, op) == to.ops.end()) to.ops.push_back(op);
}

// The stages of pictures behind the decode. One ends with each op that makes a picture of its own, with what
// was noted before it; the last one makes the result.
void name_picture_stages(Program& program, Program::Stage& decode) {
  const std::vector<PictureOp> ops = picture_ops(program);
  const auto makes = [](const PictureOp& op) { return op.steps && !op.op->traits().waits; };
  std::size_t stages_until = ops.size();
  while (stages_until > 0 && !makes(ops[stages_until - 1])) --stages_until;
  // The last resize writes into the result.
  if (stages_until > 0 && ops[stages_until - 1].op->traits().kind != OpKind::kColor) --stages_until;
  Program::Stage stage;
  bool windows_only = !decode.name.empty();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = *ops[i].op;
    const OpTraits& traits = op.traits();
    if (traits.kind == OpKind::kDecode) {  // decode_raw, in whose place a picture decodes nothing
      add_op(stage, op.name(), ops[i].index);
      continue;
    }
    if (ops[i].grouped) {
      add_op(stage, "random_apply[" + op.name() + "]", ops[i].index);
    } else if (windows_only && traits.is_window && traits.is_resize) {
      program.decodes_windows = true;
      add_name(decode, op.name() + "[window]");  // its work is the resize
      add_op(stage, op.name() + "[resize]", ops[i].index);
    } else if (windows_only && traits.is_window && traits.waits) {
      program.decodes_windows = true;
      add_op(decode, op.name(), ops[i].index);
      continue;
    } else {
      add_op(stage, op.name(), ops[i].index);
    }
    windows_only &= traits.is_flip && !ops[i].grouped;
    if (!makes(ops[i]) || i >= stages_until) continue;
    program.stages.push_back(std::move(stage));
    program.step_ops[ops[i].step_op].ends_stage = static_cast<std::uint8_t>(program.stages.size());
    stage = {};
  }
  if (stage.name.empty()) stage.name = "store";
  program.stages.push_back(std::move(stage));
}

// The ops of the second view are counted with those of the first.
void share_stages(Program& program) {
  std::vector<std::uint8_t> ends;
  for (const StepOp& op : program.step_ops)
    if (op.view == 0) ends.push_back(op.ends_stage);
  std::size_t next = 0;
  for (StepOp& op : program.step_ops)
    if (op.view == 1) op.ends_stage = ends[next++];
}

// Where the time of a sample is counted.
void name_stages(Program& program) {
  Program::Stage decode;
  Program::Stage arrays;
  for (const Program::OpProgram& entry : program.ops) {
    if (decodes_picture(*entry.op)) {
      add_op(decode, decode.name.empty() ? entry.op->name() : "", entry.index);
    } else if (std::ranges::all_of(entry.fields, [&](std::size_t f) {
                 return program.fields[f].kind != FieldProgram::Kind::kPicture;
               })) {
      add_op(arrays, entry.op->name(), entry.index);
    }
  }
  for (const FieldProgram& field : program.fields)
    if (field.kind == FieldProgram::Kind::kCopy && field.out_bytes > 8 && arrays.name.empty())
      arrays.name = "copy";
  if (!decode.name.empty()) program.stages.emplace_back();
  if (!program.pictures.empty()) {
    name_picture_stages(program, decode);
    share_stages(program);
  }
  if (!decode.name.empty()) program.stages.front() = std::move(decode);
  program.store_stage = program.stages.empty() ? 0 : program.stages.size() - 1;
  if (!arrays.name.empty() || program.stages.empty()) {
    if (arrays.name.empty()) arrays.name = "copy";
    program.stages.push_back(std::move(arrays));
  }
}

// What the states after the last op say of objects. `before`: those before the first one.
void find_objects(Program& program, const std::vector<FieldState>& before,
                  const std::vector<FieldState>& states) {
  using Part = FieldState::Part;
  ObjectProgram& objects = program.objects;
  objects.boxes = object_field(states, Part::kBoxes);
  if (objects.boxes == FieldState::kNoField) return;
  objects.op = static_cast<const BoxesOp*>(states[objects.boxes].boxes_op);
  objects.from_source = before[objects.boxes].form != FieldState::Form::kObjects;
  objects.objects_max = static_cast<std::size_t>(states[objects.boxes].spec.shape[0]);
  objects.count = object_field(states, Part::kCount);
  if (objects.count < before.size()) objects.count_before = objects.count;
  objects.key_points = object_field(states, Part::kKeyPoints);
  if (objects.key_points != FieldState::kNoField)
    objects.key_points_each = static_cast<std::size_t>(states[objects.key_points].spec.shape[1]);
  for (std::size_t f = 0; f < states.size(); ++f) {
    if (states[f].spec.name == kMainField) objects.image = f;
    if (states[f].part != Part::kRows) continue;
    const auto bytes = static_cast<std::size_t>(states[f].spec.bytes());
    objects.rows.push_back({f, bytes / objects.objects_max});
  }
}

// Whether ops move pixels, or change colors, of a float32 picture.
bool has_float_steps(const Program& program) {
  return std::ranges::any_of(program.ops, [](const Program::OpProgram& entry) {
    const OpKind kind = entry.op->traits().kind;
    return (kind == OpKind::kGeometric || kind == OpKind::kColor) &&
           std::ranges::any_of(entry.fields,
                               [&](std::size_t f) { return entry.before[f].spec.dtype == DType::kFloat32; });
  });
}

}  // namespace

Result<std::vector<std::size_t>> running_order(const Pipeline& pipeline, const PlanOptions& options) {
  const std::size_t count = pipeline.ops().size();
  std::vector<std::size_t> declared(count);
  std::iota(declared.begin(), declared.end(), 0);
  const std::vector<std::size_t>& order = options.order;
  if (order.empty()) return declared;
  if (!std::ranges::is_permutation(order, declared))
    return fail(Code::kInvalidArgument, fmt::format("plan: order has {} indices; give each of 0 to {} once",
                                                    order.size(), count - 1));
  return order;
}

Result<Program> compile_program(std::shared_ptr<const Pipeline> pipeline, const PlanOptions& options) {
  Program program{.pipeline = std::move(pipeline), .options = options};
  std::vector<FieldState> before;
  ASSIGN(const std::vector<FieldState> states, take_ops(program, before));
  for (const Program::OpProgram& entry : program.ops)  // compile_behind_transcode() takes the first one
    if (as_transcode(*entry.op) != nullptr) return wrong_order("transcode is not the first one");
  if (!options.packed) TRY(check_fixed(*program.pipeline, states));
  if (options.packed)
    for (const FieldState& state : states)
      if (state.form == FieldState::Form::kTensor && state.spec.bytes() < 0)
        return fail(Code::kInvalidArgument, "plan: " + state.spec.name + " is " + state.spec.to_string() +
                                                "; give it one shape: put boxes(...) behind decode_image");
  find_raws(program);
  find_objects(program, before, states);
  program.options.fuse &= !has_float_steps(program);
  for (std::size_t i = 0; i < states.size(); ++i)
    program.fields.push_back(compile_field(program, i, states[i]));
  find_lengths(program, states);
  if (program.options.fuse) {
    name_stages(program);
  } else {
    program.stages = {{.name = "op_by_op"}};
    for (const Program::OpProgram& entry : program.ops) add_op(program.stages.front(), "", entry.index);
  }
  return program;
}

Status run_audio(const FieldProgram& field, const SampleId& id, std::span<const std::byte> input,
                 std::span<const std::byte> length, AudioClip& clip) {
  const auto named = [&](const Error& error, const AudioOp& op) {
    const std::string where = field.name == kAudioField ? op.name() : op.name() + ": " + field.name;
    return fail(error.code, where + ": " + error.message, error.sys_errno);
  };
  const FieldState& state = field.first_state;
  const AudioOp& first = *field.audio_steps.front().op;
  Status status;
  if (state.form == FieldState::Form::kEncoded) {
    status = first.begin(input, clip);
  } else {
    const std::vector<std::int64_t>& shape = state.spec.shape;
    AudioClip::Form form{.rows = shape.size() == 2 ? shape[0] : 1,
                         .columns = shape.back(),
                         .rate = state.rate,
                         .time_first = state.time_first,
                         .is_int16 = state.spec.dtype == DType::kInt16};
    form.valid = state.time_first ? form.rows : form.columns;
    if (!length.empty()) std::memcpy(&form.valid, length.data(), sizeof form.valid);
    form.valid = std::clamp<std::int64_t>(form.valid, 0, state.time_first ? form.rows : form.columns);
    status = clip.load(input.data(), form);
  }
  if (!status) return named(status.error(), first);
  for (const FieldProgram::AudioStep& step : field.audio_steps) {
    SampleRng rng = step.key.at(id.epoch, id.record, id.occurrence);
    status = step.op->apply(rng, clip);
    if (!status) return named(status.error(), *step.op);
  }
  status = clip.decode();
  if (!status) return named(status.error(), first);
  return {};
}

Status load_objects(const ObjectProgram& program, std::span<const std::span<const std::byte>> inputs,
                    ImageSize size, Objects& objects) {
  BoxesOp::Source source{.boxes = inputs[program.boxes], .key_points = {}, .count = 0};
  if (program.key_points != FieldState::kNoField) source.key_points = inputs[program.key_points];
  const std::size_t rows = source.boxes.size() / sizeof(Box);
  const auto check = [&](const char* what, std::span<const std::byte> field,
                         std::size_t row_bytes) -> Status {
    if (field.size() == rows * row_bytes) return {};
    return fail(Code::kCorrupt, fmt::format("boxes: {} B of {} beside {} boxes; give {} B for each",
                                            field.size(), what, rows, row_bytes));
  };
  TRY(check("boxes", source.boxes, sizeof(Box)));
  TRY(check("key points", source.key_points, program.key_points_each * sizeof(KeyPoint)));
  for (const ObjectProgram::Rows& one : program.rows) TRY(check("rows", inputs[one.field], one.row_bytes));
  source.count = rows;
  if (program.count_before != FieldState::kNoField) {
    std::int64_t count = 0;
    CHECK(inputs[program.count_before].size() == sizeof count);
    std::memcpy(&count, inputs[program.count_before].data(), sizeof count);
    if (count < 0 || static_cast<std::uint64_t>(count) > rows)
      return fail(Code::kCorrupt, fmt::format("boxes: count is {}; give 0 to {}", count, rows));
    source.count = static_cast<std::size_t>(count);
  }
  if (program.from_source)
    return program.op->load(source, size.height, size.width, program.key_points_each, program.objects_max,
                            objects);
  program.op->load_again(source, size.height, size.width, program.key_points_each, objects);
  return {};
}

void store_objects(const ObjectProgram& program, std::span<const std::span<const std::byte>> inputs,
                   const Objects& objects, std::span<std::byte* const> outputs) {
  const std::size_t count = objects.count();
  CHECK(count <= program.objects_max);
  const auto store = [&](std::size_t field, const void* values, std::size_t object_bytes) {
    std::byte* const out = outputs[field];
    if (count > 0) std::memcpy(out, values, count * object_bytes);
    std::memset(out + count * object_bytes, 0, (program.objects_max - count) * object_bytes);
  };
  store(program.boxes, objects.boxes().data(), sizeof(Box));
  if (program.key_points != FieldState::kNoField)
    store(program.key_points, objects.key_points().data(), program.key_points_each * sizeof(KeyPoint));
  for (const auto& [field, row_bytes] : program.rows) {
    std::byte* out = outputs[field];
    for (const std::uint32_t row : objects.rows()) {
      std::memcpy(out, inputs[field].data() + row * row_bytes, row_bytes);
      out += row_bytes;
    }
    std::memset(out, 0, (program.objects_max - count) * row_bytes);
  }
  const auto number = static_cast<std::int64_t>(count);
  std::memcpy(outputs[program.count], &number, sizeof number);
}

std::unexpected<Error> decode_failed(const std::string& field, const Error& error) {
  CHECK(error.code == Code::kCorrupt || error.code == Code::kExhausted || error.code == Code::kTimeout);
  const std::string where =
      field == kMainField ? std::string("decode_image: ") : "decode_image: " + field + ": ";
  return fail(error.code, where + error.message, error.sys_errno);
}

Status check_steps(const PlanOptions& options, const Op& op, const StepList& steps, std::size_t first) {
  if (options.image_pixels_max >= PlanOptions{}.image_pixels_max) return {};
  for (const Step& step : std::span(steps.steps).subspan(first, steps.count - first)) {
    const auto pixels = static_cast<std::uint64_t>(step.height) * static_cast<std::uint64_t>(step.width);
    if (pixels > options.image_pixels_max)
      return fail(Code::kCorrupt,
                  fmt::format("{}: an image becomes {}; give a smaller size: at most {} pixels here",
                              op.name(), size_text({step.height, step.width}), options.image_pixels_max));
  }
  return {};
}

std::unexpected<Error> size_mismatch(const Op& op, ImageSize first, const std::string& field,
                                     ImageSize size) {
  return fail(Code::kCorrupt, op.name() + ": " + field + " is " + size_text(size) +
                                  " and the image before it " + size_text(first) +
                                  "; the images of a sample need one size (width x height)");
}

}  // namespace carya::transforms
