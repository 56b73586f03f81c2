#include "transforms/plan/plan.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "transforms/kernels/store/half.h"
#include "transforms/plan/packing.h"
#include "transforms/plan/pass_price.h"
#include "transforms/plan/picture.h"
#include "transforms/plan/program.h"
#include "transforms/plan/scratch.h"
#include "transforms/plan/stage_timer.h"
#include "transforms/plan/transcoded_plan.h"
#include "transforms/plan/user_plan.h"

namespace carya::transforms {
namespace {

class CompiledPlan final : public Plan {
 public:
  explicit CompiledPlan(Program program) : program_(std::move(program)), number_(next_plan_number()) {
    for (const TensorSpec& spec : program_.outputs) fixed_ = fixed_ && spec.bytes() >= 0;
    for (const SourceField& field : program_.inputs) input_specs_.push_back(field.spec);
    for (const FieldProgram& field : program_.fields) has_decode_ |= field.decode != nullptr;
    CHECK(program_.stages.size() <= kStagesMax);
  }

  const std::vector<SourceField>& inputs() const override { return program_.inputs; }
  const std::vector<TensorSpec>& outputs() const override { return program_.outputs; }
  bool decodes_windows() const override { return program_.decodes_windows; }

  Status run(Scratch& scratch, const SampleId& id, std::span<const std::span<const std::byte>> inputs,
             std::span<std::byte* const> outputs, std::span<FieldIndex> indexes) const override {
    CHECK(fixed_ && outputs.size() == program_.outputs.size());
    Scratch::Impl& impl = scratch.impl();
    StageTimer timer = begin(impl, inputs, indexes);
    if (!program_.options.fuse) return run_whole(impl, timer, id, inputs, outputs);
    TRY(check_raws(program_, inputs));
    if (has_steps()) {
      TRY(prepare_pictures(impl, timer, id, inputs, indexes));
      TRY(run_pictures(impl, timer, id, inputs, outputs));
      write_objects(impl, timer, inputs, outputs);
    }
    TRY(run_sounds(impl, id, inputs, outputs));
    return run_arrays(impl, timer, inputs, outputs);
  }

  Status pack(Scratch& scratch, const SampleId& id, std::span<const std::span<const std::byte>> inputs,
              const PackRoom& room, std::span<FieldIndex> indexes) const override {
    Scratch::Impl& impl = scratch.impl();
    StageTimer timer = begin(impl, inputs, indexes);
    if (!program_.options.fuse) return pack_whole(impl, timer, id, inputs, room);
    TRY(check_raws(program_, inputs));
    if (has_steps()) TRY(prepare_pictures(impl, timer, id, inputs, indexes));
    std::array<ImageSize, kFieldsMax> sizes;
    for (const std::size_t f : program_.pictures) sizes[f] = made_size(impl, f);
    std::array<std::byte*, kFieldsMax> places{};
    TRY(place_packed(std::span(sizes).first(program_.outputs.size()), room, places));
    const Outputs outputs = std::span(places).first(program_.outputs.size());
    if (has_steps()) {
      TRY(run_pictures(impl, timer, id, inputs, outputs));
      write_objects(impl, timer, inputs, outputs);
    }
    TRY(run_sounds(impl, id, inputs, outputs));
    return run_arrays(impl, timer, inputs, outputs);
  }

  void unpack(std::span<const std::byte> packed,
              std::span<std::span<const std::byte>> inputs) const override {
    CHECK(inputs.size() == input_specs_.size());
    transforms::unpack(input_specs_, packed, inputs);
  }
  bool can_unpack(std::span<const std::byte> packed) const override {
    return is_packed(input_specs_, packed);
  }

  bool takes_packed(std::size_t f) const override {
    const auto of_it = [&](const FieldProgram& field) { return field.source == f; };
    return program_.options.fuse && std::ranges::any_of(program_.fields, of_it) &&
           std::ranges::all_of(program_.fields, [&](const FieldProgram& field) {
             return !of_it(field) || field.decode != nullptr;
           });
  }

  Result<std::vector<OwnedTensor>> sample(const SampleId& id,
                                          std::span<const std::span<const std::byte>> inputs) const override {
    return run_op_by_op(program_, id, inputs);
  }

  void collect_decodes(Scratch& scratch, DecodePaths& total) const override {
    for (ImageDecoder& decoder : scratch.impl().decoders) {
      const DecodeCounts counts = decoder.take_counts();
      total.own += counts.own;
      total.packed += counts.packed;
      total.turbo += counts.turbo;
      total.warnings += counts.warnings;
      total.indexed += counts.indexed;
      total.scan_bytes += counts.scan_bytes;
      total.pixels += counts.pixels;
    }
  }
  void collect_profile(Scratch& scratch, std::vector<OpProfile>& total) const override {
    StageCounters& counters = scratch.impl().counters_of(number_);
    if (total.empty()) {
      std::vector<OpProfile> all;  // all of them or, without memory, none
      for (const Program::Stage& stage : program_.stages)
        all.push_back({.name = stage.name, .ops = stage.ops});
      total = std::move(all);
    }
    for (std::size_t i = 0; i < program_.stages.size() && i < total.size(); ++i) {
      total[i].samples += counters.samples;
      total[i].timed_samples += counters.timed_samples;
      total[i].cpu_ns += counters.stages[i].cpu_ns;
      total[i].bytes_in += counters.stages[i].bytes_in;
      total[i].bytes_out += counters.stages[i].bytes_out;
    }
    if (!total.empty()) {
      total.front().pictures += counters.pictures;
      total.front().height += counters.height;
      total.front().width += counters.width;
    }
    counters = {.plan = number_, .untimed = counters.untimed};
  }

 private:
  using Inputs = std::span<const std::span<const std::byte>>;
  using Outputs = std::span<std::byte* const>;

  // A sample begins: its place in the profile, and no index used yet. A small sample takes as long as some calls.
  [[gnu::always_inline]] StageTimer begin(Scratch::Impl& impl, Inputs inputs,
                                          std::span<FieldIndex> indexes) const {
    CHECK(inputs.size() == program_.inputs.size());
    CHECK(indexes.empty() || indexes.size() == inputs.size());
    for (FieldIndex& index : indexes) {
      index.made.clear();
      index.use = IndexUse::kNone;
      index.damaged = false;
    }
    StageCounters& counters = impl.counters_of(number_);
    const bool timed = counters.untimed == 0;
    if (!timed) --counters.untimed;
    ++counters.samples;
    counters.timed_samples += timed;
    return StageTimer(counters, timed, impl.bands);
  }
  Status run_whole(Scratch::Impl& impl, StageTimer& timer, const SampleId& id, Inputs inputs,
                   Outputs outputs) const;
  Status pack_whole(Scratch::Impl& impl, StageTimer& timer, const SampleId& id, Inputs inputs,
                    const PackRoom& room) const;
  Status place_packed(std::span<const ImageSize> sizes, const PackRoom& room,
                      std::span<std::byte*> places) const;
  Status prepare_pictures(Scratch::Impl& impl, StageTimer& timer, const SampleId& id, Inputs inputs,
                          std::span<FieldIndex> indexes) const;
  Status run_pictures(Scratch::Impl& impl, StageTimer& timer, const SampleId& id, Inputs inputs,
                      Outputs outputs) const;
  ImageSize made_size(const Scratch::Impl& impl, std::size_t f) const;
  void add_sizes(StageTimer& timer, const Scratch::Impl& impl) const;
  void add_times(StageTimer& timer, const PictureTrace& trace, const FieldProgram& field,
                 std::int64_t bytes) const;
  Status run_arrays(Scratch::Impl& impl, StageTimer& timer, Inputs inputs, Outputs outputs) const;
  Status run_sounds(Scratch::Impl& impl, const SampleId& id, Inputs inputs, Outputs outputs) const;
  Status open(Scratch::Impl& impl, Inputs inputs, std::span<FieldIndex> indexes) const;
  ImageSize source_size(const Scratch::Impl& impl, const FieldProgram& field) const;
  Status add_price(Scratch::Impl& impl, const StepOp& op, ImageSize in, ImageSize out) const;
  bool has_steps() const { return !program_.pictures.empty() || program_.objects.op != nullptr; }
  void write_objects(const Scratch::Impl& impl, StageTimer& timer, Inputs inputs, Outputs outputs) const;
  ImageSize object_image_size(const Scratch::Impl& impl, Inputs inputs, ImageSize size) const;
  Status resolve(Scratch::Impl& impl, const SampleId& id, Inputs inputs) const;
  PictureSource source_of(Scratch::Impl& impl, const SampleId& id, std::size_t f,
                          std::span<const std::byte> input) const;
  std::span<const Step> steps_of(const Scratch::Impl& impl, std::size_t f) const;
  Status decode_for_views(Scratch::Impl& impl, std::array<PictureSource, 2>& sources,
                          PictureTrace* trace) const;
  Status run_views(Scratch::Impl& impl, StageTimer& timer, const SampleId& id, Inputs inputs,
                   Outputs outputs) const;
  Status render(Scratch::Impl& impl, const PictureSource& source, std::size_t f, PictureTrace* trace,
                std::byte* out) const;

  Program program_;
  std::vector<TensorSpec> input_specs_;  // of program_.inputs
  std::uint64_t number_;
  bool fixed_ = true;
  bool has_decode_ = false;
};

// Read the headers of all encoded pictures, and the sizes of all.
Status CompiledPlan::open(Scratch::Impl& impl, Inputs inputs, std::span<FieldIndex> indexes) const {
  while (impl.decoders.size() < program_.decoders) impl.decoders.emplace_back().set_patience(&impl.patience);
  if (impl.infos.size() < program_.decoders) impl.infos.resize(program_.decoders);
  for (const std::size_t f : program_.pictures) {
    const FieldProgram& field = program_.fields[f];
    if (field.source != f) continue;
    if (!field.decode) {
      const bool fixed = field.in_bytes >= 0;
      impl.sizes[f] =
          fixed ? ImageSize{field.source_shape[0], field.source_shape[1]} : packed_size(inputs[f]);
      continue;
    }
    ImageDecoder& decoder = impl.decoders[field.decoder];
    FieldIndex* const index = indexes.empty() ? nullptr : &indexes[f];
    const bool packed = index != nullptr && index->packed;
    auto info = packed ? decoder.open_packed(inputs[f], program_.limits(), *index)
                       : decoder.open(inputs[f], program_.limits());
    if (!info) return decode_failed(field.name, info.error());
    impl.infos[field.decoder] = *info;
    const bool swaps = field.decode->apply_exif() && orientation_swaps(info->exif_orientation);
    impl.sizes[f] = swaps ? ImageSize{info->width, info->height} : ImageSize{info->height, info->width};
    decoder.set_bands(impl.bands);
    if (!packed) decoder.set_index(index);
  }
  return {};
}

ImageSize CompiledPlan::source_size(const Scratch::Impl& impl, const FieldProgram& field) const {
  return impl.sizes[field.source];
}

// The size of the picture after all its steps.
ImageSize CompiledPlan::made_size(const Scratch::Impl& impl, std::size_t f) const {
  ImageSize size = source_size(impl, program_.fields[f]);
  for (const Step& step : steps_of(impl, f))
    if (step.kind != Step::Kind::kColor && (step.fields >> f & 1) != 0) size = {step.height, step.width};
  return size;
}

// One pass of each picture that the op takes.
Status CompiledPlan::add_price(Scratch::Impl& impl, const StepOp& op, ImageSize in, ImageSize out) const {
  for (const std::size_t f : program_.pictures) {
    if ((op.fields & (std::uint64_t{1} << f)) == 0) continue;
    const FieldProgram& field = program_.fields[f];
    const bool met = in.height >= 0;  // a color op may come before the sizes do
    const Op& as_op = op.color ? static_cast<const Op&>(*op.color) : *op.geometric;
    TRY(impl.price.add(as_op, met ? in : source_size(impl, field),
                       out.height >= 0 ? out : source_size(impl, field), field.picture_shape[2]));
  }
  return {};
}

// The size of the main image where the op boxes stands, whose objects know no other yet. `size`: that of all images of
// the sample, if an op has met them.
ImageSize CompiledPlan::object_image_size(const Scratch::Impl& impl, Inputs inputs, ImageSize size) const {
  if (size.height >= 0) return size;
  const std::size_t image = program_.objects.image;
  const FieldProgram& field = program_.fields[image];
  if (field.kind == FieldProgram::Kind::kPicture) return source_size(impl, field);
  if (field.in_bytes < 0) return packed_size(inputs[image]);
  return {field.source_shape[0], field.source_shape[1]};
}

// Draw all random numbers: one list of steps, which every picture follows from its first op on.
Status CompiledPlan::resolve(Scratch::Impl& impl, const SampleId& id, Inputs inputs) const {
  StepList& steps = impl.steps;
  steps.count = 0;
  std::array<ImageSize, 2> sizes;  // of each view; one size before the views and after them
  impl.price = PassPrice(program_.options.sample_ns_max);
  const ObjectProgram& objects = program_.objects;
  bool has_objects = objects.op != nullptr && !objects.from_source;
  if (has_objects) TRY(load_objects(objects, inputs, object_image_size(impl, inputs, {}), impl.objects));
  for (std::size_t g = 0; g < program_.step_ops.size(); ++g) {
    const StepOp& op = program_.step_ops[g];
    impl.first_step[g] = steps.count;
    const bool open = op.gate.open(id);
    if (op.objects == objects.op && op.objects != nullptr) {
      TRY(load_objects(objects, inputs, object_image_size(impl, inputs, sizes[0]), impl.objects));
      has_objects = true;
    }
    if (op.objects) {
      op.objects->apply(impl.objects);
      continue;
    }
    if (op.color) {
      if (!open) continue;
      const ImageSize at = sizes[op.view == 1];
      TRY(add_price(impl, op, at, at));
      Step& step = steps.add(Step::Kind::kColor, {});
      step.color = op.color;
      step.key = op.key;
      step.fields = op.fields;
      step.ends_stage = op.ends_stage;
      continue;
    }
    ImageSize& size = sizes[op.view == 1];
    for (const std::size_t f : program_.pictures) {
      const FieldProgram& field = program_.fields[f];
      if (field.first_geometric != g) continue;
      const ImageSize own = source_size(impl, field);
      if (size.height < 0) size = own;
      if (own != size) return size_mismatch(*op.geometric, size, field.name, own);
    }
    if (open) {  // the sizes met before: whether they agree does not depend on a draw
      SampleRng rng = op.key.at(id.epoch, id.record, id.occurrence);
      TRY(has_objects ? op.geometric->resolve_with(rng, size, impl.objects, steps)
                      : op.geometric->resolve(rng, size, steps));
      TRY(check_steps(program_.options, *op.geometric, steps, impl.first_step[g]));
      for (std::size_t i = impl.first_step[g]; i < steps.count; ++i) steps.steps[i].fields = op.fields;
      if (has_objects)
        follow(impl.objects,
               std::span(steps.steps).subspan(impl.first_step[g], steps.count - impl.first_step[g]));
    }
    if (steps.count > impl.first_step[g]) {
      Step& last = steps.steps[steps.count - 1];
      TRY(add_price(impl, op, size, {last.height, last.width}));
      size = {last.height, last.width};
      last.ends_stage = op.ends_stage;
    }
    if (op.view == kEveryView) sizes[1] = sizes[0];
  }
  impl.first_step[program_.step_ops.size()] = steps.count;
  return {};
}

// The pixels of a picture before its steps.
PictureSource CompiledPlan::source_of(Scratch::Impl& impl, const SampleId& id, std::size_t f,
                                      std::span<const std::byte> input) const {
  const FieldProgram& field = program_.fields[f];
  PictureSource source{
      .size = source_size(impl, field), .id = id, .field = std::uint64_t{1} << f, .extra = field.extra};
  if (field.decode) {
    source.channels = color_channels(field.decode->mode());
    source.decoder = &impl.decoders[field.decoder];
    source.decode = field.decode;
    source.info = &impl.infos[field.decoder];
    source.file_bytes = static_cast<std::int64_t>(input.size());
    if (field.decode->apply_exif()) source.orientation = source.info->exif_orientation;
  } else {
    source.channels = field.source_shape[2];
    if (field.in_bytes < 0) input = packed_pixels(input);
    source.pixels = {reinterpret_cast<const std::uint8_t*>(input.data()), source.size.height,
                     source.size.width, source.channels, source.size.width * source.channels};
  }
  return source;
}

std::span<const Step> CompiledPlan::steps_of(const Scratch::Impl& impl, std::size_t f) const {
  const std::size_t first = impl.first_step[program_.fields[f].first_step_op];
  return {impl.steps.steps.data() + first, impl.steps.count - first};
}

// Decode once what the views of one picture need together; they read their pixels there.
Status CompiledPlan::decode_for_views(Scratch::Impl& impl, std::array<PictureSource, 2>& sources,
                                      PictureTrace* trace) const {
  const auto& views = *program_.views;
  const Region one = Picture(impl, sources[0]).needed(steps_of(impl, views[0]));
  const Region other = Picture(impl, sources[1]).needed(steps_of(impl, views[1]));
  const std::int64_t top = std::min(one.top, other.top);
  const std::int64_t left = std::min(one.left, other.left);
  const Region both{top, left, std::max(one.top + one.height, other.top + other.height) - top,
                    std::max(one.left + one.width, other.left + other.width) - left};
  Picture picture(impl, sources[0]);
  picture.set_trace(trace);
  ImageView pixels;
  const Status status = picture.read_apart(both, pixels);
  if (!status) return decode_failed(program_.fields[views[0]].name, status.error());
  for (PictureSource& source : sources) {
    source.decoder = nullptr;
    source.pixels = pixels;
    source.pixels_top = both.top;
    source.pixels_left = both.left;
  }
  return {};
}

Status CompiledPlan::render(Scratch::Impl& impl, const PictureSource& source, std::size_t f,
                            PictureTrace* trace, std::byte* out) const {
  const FieldProgram& field = program_.fields[f];
  const std::span<const Step> steps = steps_of(impl, f);
  const ImageSize last = made_size(impl, f);
  // The output was sized from this shape: a decoded picture that no op brought to it must not be written.
  CHECK(field.out_bytes < 0 ||
        (last.height == field.picture_shape[0] && last.width == field.picture_shape[1]));
  Picture picture(impl, source);
  picture.set_trace(trace);
  const bool one_pass = field.chain->store().has_value();
  StoreSpec spec = one_pass ? *field.chain->store() : StoreSpec{.channels = field.picture_shape[2]};
  const std::optional<DType> halves = one_pass ? field.chain->halves() : std::nullopt;
  const bool straight = one_pass && !halves;
  spec.stream = straight && worth_streaming(field.out_bytes);
  const std::int64_t count = last.height * last.width * spec.channels;
  if (!straight && !impl.whole.reserve(static_cast<std::size_t>(halves ? 4 * count : count)))
    return fail(Code::kExhausted, "no memory for a picture of " + size_text(last));
  std::byte* const pixels = straight ? out : reinterpret_cast<std::byte*>(impl.whole.data());
  const Status status = picture.render(steps, spec, pixels);
  if (!status) return decode_failed(field.name, status.error());
  if (halves) to_halves(*halves, pixels, count, out);
  if (one_pass) return {};
  return field.chain->run(field.picture_shape, pixels, out, impl.values);
}

void CompiledPlan::add_sizes(StageTimer& timer, const Scratch::Impl& impl) const {
  for (const std::size_t f : program_.pictures)
    if (const FieldProgram& field = program_.fields[f]; field.decode && field.source == f)
      timer.add_picture(source_size(impl, field));
}

void CompiledPlan::add_times(StageTimer& timer, const PictureTrace& trace, const FieldProgram& field,
                             std::int64_t bytes) const {
  if (trace.decoded_at_ns != 0) {
    timer.add(0, bytes, trace.decoded_bytes, trace.decoded_at_ns);
    bytes = trace.decoded_bytes;
  }
  for (std::size_t i = 0; i < trace.count; ++i) {
    timer.add(trace.ends[i].stage, bytes, trace.ends[i].bytes, trace.ends[i].at_ns);
    bytes = trace.ends[i].bytes;
  }
  // A picture of any size goes on as it is.
  timer.add(program_.store_stage, bytes, field.out_bytes < 0 ? bytes : field.out_bytes);
}

Status CompiledPlan::prepare_pictures(Scratch::Impl& impl, StageTimer& timer, const SampleId& id,
                                      Inputs inputs, std::span<FieldIndex> indexes) const {
  TRY(open(impl, inputs, indexes));
  if (timer.timed()) add_sizes(timer, impl);
  return resolve(impl, id, inputs);
}

Status CompiledPlan::run_pictures(Scratch::Impl& impl, StageTimer& timer, const SampleId& id, Inputs inputs,
                                  Outputs outputs) const {
  if (program_.views && program_.fields[(*program_.views)[0]].kind == FieldProgram::Kind::kPicture)
    return run_views(impl, timer, id, inputs, outputs);
  for (const std::size_t f : program_.pictures) {
    const FieldProgram& field = program_.fields[f];
    if (!field.decode) CHECK(inputs[f].size() == pixel_bytes(field, impl.sizes[f]));
    impl.trace.clear();
    TRY(render(impl, source_of(impl, id, f, inputs[f]), f, timer.timed() ? &impl.trace : nullptr,
               outputs[f]));
    if (timer.timed()) add_times(timer, impl.trace, field, static_cast<std::int64_t>(inputs[f].size()));
  }
  return {};
}

// The views are the only pictures of their sample.
Status CompiledPlan::run_views(Scratch::Impl& impl, StageTimer& timer, const SampleId& id, Inputs inputs,
                               Outputs outputs) const {
  const auto& views = *program_.views;
  const std::span<const std::byte> input = inputs[views[0]];
  std::array sources{source_of(impl, id, views[0], input), source_of(impl, id, views[1], input)};
  PictureTrace* const trace = timer.timed() ? &impl.trace : nullptr;
  auto bytes = static_cast<std::int64_t>(input.size());
  impl.trace.clear();
  if (program_.fields[views[0]].decode) {
    TRY(decode_for_views(impl, sources, trace));
    timer.add(0, bytes, impl.trace.decoded_bytes, impl.trace.decoded_at_ns);
    bytes = impl.trace.decoded_bytes;
  } else {
    CHECK(input.size() == pixel_bytes(program_.fields[views[0]], impl.sizes[views[0]]));
  }
  for (std::size_t v = 0; v < views.size(); ++v) {
    impl.trace.clear();
    TRY(render(impl, sources[v], views[v], trace, outputs[views[v]]));
    if (trace) add_times(timer, *trace, program_.fields[views[v]], bytes);
  }
  return {};
}

void CompiledPlan::write_objects(const Scratch::Impl& impl, StageTimer& timer, Inputs inputs,
                                 Outputs outputs) const {
  const ObjectProgram& objects = program_.objects;
  if (objects.op == nullptr) return;
  store_objects(objects, inputs, impl.objects, outputs);
  timer.add(program_.stages.size() - 1, static_cast<std::int64_t>(inputs[objects.boxes].size()),
            program_.fields[objects.boxes].out_bytes);
}

// All audio fields, and the fields that say how long they are.
Status CompiledPlan::run_sounds(Scratch::Impl& impl, const SampleId& id, Inputs inputs,
                                Outputs outputs) const {
  if (program_.sounds == 0) return {};
  while (impl.sounds.size() < program_.sounds) impl.sounds.emplace_back().set_patience(&impl.patience);
  for (std::size_t f = 0; f < program_.fields.size(); ++f) {
    const FieldProgram& field = program_.fields[f];
    if (field.kind != FieldProgram::Kind::kAudio) continue;
    const std::size_t length = field.first_state.length_field;
    AudioClip& clip = impl.sounds[field.sound];
    const TensorSpec& spec = program_.outputs[f];
    clip.set_result(spec.dtype == DType::kFloat32 ? outputs[f] : nullptr, field.out_bytes / 4);
    TRY(run_audio(field, id, inputs[f],
                  length < inputs.size() ? inputs[length] : std::span<const std::byte>(), clip));
    const std::int64_t values = clip.rows() * clip.columns();
    CHECK(values * static_cast<std::int64_t>(dtype_bytes(spec.dtype)) == field.out_bytes);
    clip.store(spec.dtype == DType::kInt16, outputs[f]);
  }
  for (std::size_t f = 0; f < program_.fields.size(); ++f) {
    if (program_.fields[f].kind != FieldProgram::Kind::kLength) continue;
    const std::int64_t valid = impl.sounds[program_.fields[f].sound].valid();
    std::memcpy(outputs[f], &valid, sizeof valid);
  }
  return {};
}

Status CompiledPlan::run_arrays(Scratch::Impl& impl, StageTimer& timer, Inputs inputs,
                                Outputs outputs) const {
  const std::size_t stage = program_.stages.size() - 1;
  for (std::size_t f = 0; f < program_.fields.size(); ++f) {
    const FieldProgram& field = program_.fields[f];
    if (field.kind == FieldProgram::Kind::kPicture || field.kind == FieldProgram::Kind::kLength ||
        field.kind == FieldProgram::Kind::kObjects)
      continue;
    if (field.kind == FieldProgram::Kind::kAudio) {  // run_sounds() has made it
      timer.add(stage, static_cast<std::int64_t>(inputs[f].size()), field.out_bytes);
      continue;
    }
    const std::span<const std::byte> input = inputs[field.source];
    CHECK(static_cast<std::int64_t>(input.size()) == field.in_bytes);
    if (field.kind == FieldProgram::Kind::kCopy) {
      copy_out(input.data(), input.size(), outputs[f]);
      if (field.in_bytes == 8) continue;  // a label: less than the clock costs
    } else if (field.chain->store() && !field.chain->halves()) {
      StoreSpec spec = *field.chain->store();
      spec.height = 1;  // nothing moves, so the whole tensor is one row
      spec.width = field.in_bytes / spec.channels;
      spec.stream = worth_streaming(field.out_bytes);
      store_image(
          {reinterpret_cast<const std::uint8_t*>(input.data()), 1, spec.width, spec.channels, field.in_bytes},
          spec, outputs[f]);
    } else {
      TRY(field.chain->run(field.source_shape, input.data(), outputs[f], impl.values));
    }
    timer.add(stage, field.in_bytes, field.out_bytes);
  }
  return {};
}

Status CompiledPlan::run_whole(Scratch::Impl& impl, StageTimer& timer, const SampleId& id, Inputs inputs,
                               Outputs outputs) const {
  ASSIGN(const std::vector<OwnedTensor> tensors, run_op_by_op(program_, id, inputs, &impl.patience));
  std::int64_t bytes_in = 0;
  std::int64_t bytes_out = 0;
  for (std::size_t f = 0; f < tensors.size(); ++f) {
    CHECK(tensors[f].spec == program_.outputs[f]);
    std::memcpy(outputs[f], tensors[f].data.data(), tensors[f].data.size());
    bytes_out += static_cast<std::int64_t>(tensors[f].data.size());
  }
  for (const auto& input : inputs) bytes_in += static_cast<std::int64_t>(input.size());
  timer.add(0, bytes_in, bytes_out);
  return {};
}

// Ask for the memory of all outputs, and find the place of each.
Status CompiledPlan::place_packed(std::span<const ImageSize> sizes, const PackRoom& room,
                                  std::span<std::byte*> places) const {
  std::array<std::uint64_t, kFieldsMax> offsets{};
  std::uint64_t end = 0;
  for (std::size_t f = 0; f < sizes.size(); ++f) {
    offsets[f] = align_up(end, std::uint64_t{kPackAlign});
    end = offsets[f] + packed_bytes(program_.outputs[f], sizes[f]);
  }
  std::byte* const memory = room(end);
  if (memory == nullptr) return fail(Code::kExhausted, "no memory for a sample that is kept");
  for (std::size_t f = 0; f < sizes.size(); ++f)
    places[f] = pack_size(program_.outputs[f], sizes[f], memory + offsets[f]);
  return {};
}

Status CompiledPlan::pack_whole(Scratch::Impl& impl, StageTimer& timer, const SampleId& id, Inputs inputs,
                                const PackRoom& room) const {
  ASSIGN(const std::vector<OwnedTensor> tensors, run_op_by_op(program_, id, inputs, &impl.patience));
  std::array<ImageSize, kFieldsMax> sizes;
  for (std::size_t f = 0; f < tensors.size(); ++f)
    if (program_.outputs[f].bytes() < 0) sizes[f] = {tensors[f].spec.shape[0], tensors[f].spec.shape[1]};
  std::array<std::byte*, kFieldsMax> places{};
  TRY(place_packed(std::span(sizes).first(tensors.size()), room, places));
  std::int64_t bytes = 0;
  for (std::size_t f = 0; f < tensors.size(); ++f) {
    std::memcpy(places[f], tensors[f].data.data(), tensors[f].data.size());
    bytes += static_cast<std::int64_t>(tensors[f].data.size());
  }
  timer.add(0, 0, bytes);
  return {};
}

}  // namespace

void Scratch::set_go_on(std::function<bool()> go_on) {
  impl_->patience.set(std::move(go_on));
}

void Scratch::set_bands(BandRunner* runner) {
  impl_->bands = runner;
}

Scratch::Scratch() : impl_(std::make_unique<Impl>()) {
  impl_->resizer.set_patience(&impl_->patience);
}
Scratch::~Scratch() = default;
Scratch::Scratch(Scratch&&) noexcept = default;
Scratch& Scratch::operator=(Scratch&&) noexcept = default;

Result<std::shared_ptr<const Plan>> Plan::compile(std::shared_ptr<const Pipeline> pipeline,
                                                  const PlanOptions& options) {
  CHECK(pipeline != nullptr);
  if (begins_with_transcode(*pipeline, options))
    return compile_behind_transcode(std::move(pipeline), options);
  if (has_user_ops(*pipeline, options)) return compile_around_user_ops(std::move(pipeline), options);
  ASSIGN(Program program, compile_program(std::move(pipeline), options));
  return std::shared_ptr<const Plan>(std::make_shared<CompiledPlan>(std::move(program)));
}

}  // namespace carya::transforms
