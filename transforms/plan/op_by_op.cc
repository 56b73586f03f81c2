#include <algorithm>
#include <cstring>
#include <utility>

#include "transforms/kernels/codec/exif.h"
#include "transforms/kernels/floats/float_image.h"
#include "transforms/kernels/image/pad.h"
#include "transforms/plan/packing.h"
#include "transforms/plan/pass_price.h"
#include "transforms/plan/program.h"

namespace carya::transforms {
namespace {

// A sample on its way: tensors with the shapes they really have.
struct Sample {
  std::vector<OwnedTensor> tensors;
  ImageDecoder decoder;
  Resizer resizer;
  Patience* patience = nullptr;  // may be null
  Objects objects;
  bool has_objects = false;
};

ImageSize size_of(const OwnedTensor& tensor) {
  return {tensor.spec.shape[0], tensor.spec.shape[1]};
}

MutableImageView view_of(OwnedTensor& tensor) {
  const auto& shape = tensor.spec.shape;
  return {reinterpret_cast<std::uint8_t*>(tensor.data.data()), shape[0], shape[1], shape[2],
          shape[1] * shape[2]};
}

FloatView floats_of(const OwnedTensor& tensor) {
  const auto& shape = tensor.spec.shape;
  return {reinterpret_cast<const float*>(tensor.data.data()), shape[0], shape[1], shape[2]};
}

MutableFloatView floats_of(OwnedTensor& tensor) {
  const auto& shape = tensor.spec.shape;
  return {reinterpret_cast<float*>(tensor.data.data()), shape[0], shape[1], shape[2]};
}

OwnedTensor picture(const std::string& name, ImageSize size, std::int64_t channels,
                    DType dtype = DType::kUint8) {
  OwnedTensor tensor{{name, dtype, {size.height, size.width, channels}}, {}};
  tensor.data.resize(static_cast<std::size_t>(tensor.spec.bytes()));
  return tensor;
}

Status decode(const Program& program, const DecodeImage& op, PassPrice& price, Sample& sample,
              OwnedTensor& tensor) {
  const std::string name = tensor.spec.name;
  const auto info = sample.decoder.open(tensor.data, program.limits());
  if (!info) return decode_failed(name, info.error());
  const auto priced =
      price.add_decode(op, *info, static_cast<std::int64_t>(tensor.data.size()), {info->height, info->width});
  if (!priced) return decode_failed(name, priced.error());
  OwnedTensor pixels = picture(name, {info->height, info->width}, color_channels(op.mode()));
  const auto status =
      sample.decoder.decode_region({0, 0, info->height, info->width}, op.mode(), view_of(pixels));
  if (!status) return decode_failed(name, status.error());
  if (op.apply_exif() && info->exif_orientation != 1) {
    const bool swaps = orientation_swaps(info->exif_orientation);
    const ImageSize turned_size{swaps ? info->width : info->height, swaps ? info->height : info->width};
    OwnedTensor turned = picture(name, turned_size, color_channels(op.mode()));
    apply_orientation(view_of(pixels), info->exif_orientation, view_of(turned));
    pixels = std::move(turned);
  }
  tensor = std::move(pixels);
  return {};
}

void flip(const MutableImageView& image, bool horizontal, bool vertical) {
  for (std::int64_t y = 0; vertical && y < image.height / 2; ++y)
    std::swap_ranges(image.row(y), image.row(y) + image.row_bytes(), image.row(image.height - 1 - y));
  for (std::int64_t y = 0; horizontal && y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width / 2; ++x)
      std::swap_ranges(image.row(y) + x * image.channels, image.row(y) + (x + 1) * image.channels,
                       image.row(y) + (image.width - 1 - x) * image.channels);
}

void apply(const Step& step, bool extra, Sample& sample, OwnedTensor& tensor) {
  if (step.kind == Step::Kind::kFlip) return flip(view_of(tensor), step.flip_horizontal, step.flip_vertical);
  OwnedTensor out = picture(tensor.spec.name, {step.height, step.width}, tensor.spec.shape[2]);
  if (step.kind == Step::Kind::kWindow) {
    crop_padded(view_of(tensor), {step.top, step.left, step.height, step.width}, step.padding_mode,
                step.fill_of(extra), view_of(out));
    tensor = std::move(out);
    return;
  }
  const Interpolation interpolation = step.interpolation_of(extra);
  if (step.kind == Step::Kind::kWarp) {
    warp({view_of(tensor), 0, 0, step.height, step.width}, {step.matrix, interpolation, step.fill_of(extra)},
         {0, 0, step.height, step.width}, view_of(out), sample.patience);
  } else {
    sample.resizer.resize(view_of(tensor), {step.height, step.width, interpolation, step.antialias},
                          view_of(out));
  }
  tensor = std::move(out);
}

// A color as the values of a float32 picture: what to_dtype makes of it.
FloatFill float_fill(const std::array<std::uint8_t, 4>& fill, bool unit) {
  constexpr auto kUnit = static_cast<float>(1.0 / 255.0);
  FloatFill values;
  for (std::size_t c = 0; c < fill.size(); ++c)
    values[c] = static_cast<float>(fill[c]) * (unit ? kUnit : 1.0F);
  return values;
}

void apply_to_floats(const Step& step, bool extra, bool unit, Patience* patience, OwnedTensor& tensor) {
  if (step.kind == Step::Kind::kFlip)
    return flip(floats_of(tensor), step.flip_horizontal, step.flip_vertical);
  OwnedTensor out =
      picture(tensor.spec.name, {step.height, step.width}, tensor.spec.shape[2], DType::kFloat32);
  const FloatView in = floats_of(std::as_const(tensor));
  const Interpolation interpolation = step.interpolation_of(extra);
  const FloatFill fill = float_fill(step.fill_of(extra), unit);
  if (step.kind == Step::Kind::kWindow) {
    crop_padded(in, {step.top, step.left, step.height, step.width}, step.padding_mode, fill, floats_of(out));
  } else if (step.kind == Step::Kind::kWarp) {
    warp(in, step.matrix, interpolation, fill, floats_of(out), patience);
  } else {
    resize(in, interpolation, step.antialias, floats_of(out), patience);
  }
  tensor = std::move(out);
}

void see_twice(const Program::OpProgram& entry, Sample& sample) {
  OwnedTensor& first = sample.tensors[entry.fields.front()];
  OwnedTensor second = first;
  first.spec.name = "view_0";
  second.spec.name = "view_1";
  sample.tensors.push_back(std::move(second));
}

Status move_pixels(const Program& program, const Program::OpProgram& entry, const SampleId& id,
                   PassPrice& price, Sample& sample) {
  const auto& op = static_cast<const GeometricOp&>(*entry.op);
  const ImageSize size = size_of(sample.tensors[entry.fields.front()]);
  for (const std::size_t f : entry.fields)
    if (size_of(sample.tensors[f]) != size)
      return size_mismatch(op, size, sample.tensors[f].spec.name, size_of(sample.tensors[f]));
  if (!entry.gate.open(id)) return {};
  SampleRng rng = entry.key.at(id.epoch, id.record, id.occurrence);
  StepList steps;
  TRY(sample.has_objects ? op.resolve_with(rng, size, sample.objects, steps) : op.resolve(rng, size, steps));
  TRY(check_steps(program.options, op, steps, 0));
  if (steps.count == 0) return {};
  if (sample.has_objects) follow(sample.objects, std::span(steps.steps).first(steps.count));
  const ImageSize made{steps.steps[steps.count - 1].height, steps.steps[steps.count - 1].width};
  for (const std::size_t f : entry.fields) TRY(price.add(op, size, made, sample.tensors[f].spec.shape[2]));
  for (std::size_t i = 0; i < steps.count; ++i)
    for (const std::size_t f : entry.fields) {
      OwnedTensor& tensor = sample.tensors[f];
      if (tensor.spec.dtype == DType::kFloat32)
        apply_to_floats(steps.steps[i], program.fields[f].extra, entry.before[f].unit, sample.patience,
                        tensor);
      else
        apply(steps.steps[i], program.fields[f].extra, sample, tensor);
    }
  return {};
}

Status recolor(const Program::OpProgram& entry, const SampleId& id, Patience* patience, PassPrice& price,
               OwnedTensor& tensor) {
  if (!entry.gate.open(id)) return {};
  TRY(price.add(*entry.op, size_of(tensor), size_of(tensor), tensor.spec.shape[2]));
  SampleRng rng = entry.key.at(id.epoch, id.record, id.occurrence);
  ColorSteps changes;
  static_cast<const ColorOp*>(entry.op)->draw(rng, size_of(tensor), tensor.spec.shape[2], changes);
  for (std::size_t i = 0; i < changes.count; ++i) {
    const DType dtype = tensor.spec.dtype;
    OwnedTensor out = picture(tensor.spec.name, size_of(tensor),
                              channels_after(changes.steps[i], tensor.spec.shape[2]), dtype);
    if (dtype == DType::kFloat32)
      apply_color_step(changes.steps[i], floats_of(std::as_const(tensor)), floats_of(out), patience);
    else
      apply_color_step(changes.steps[i], view_of(tensor), view_of(out), patience);
    tensor = std::move(out);
  }
  return {};
}

void compute(const Program::OpProgram& entry, std::size_t f, OwnedTensor& tensor) {
  const PointStep step = static_cast<const PointOp*>(entry.op)->step(entry.before[f]);
  OwnedTensor out{{tensor.spec.name, step.to, shape_after(step, tensor.spec.shape)}, {}};
  out.data.resize(static_cast<std::size_t>(out.spec.bytes()));
  apply_point_step(step, tensor.spec.shape, tensor.data.data(), out.data.data());
  tensor = std::move(out);
}

// Audio fields, each by its ops; no op of another kind takes them. Lengths that are computed become tensors of their own.
Status run_sounds(const Program& program, const SampleId& id,
                  std::span<const std::span<const std::byte>> inputs, Sample& sample) {
  std::vector<std::int64_t> valid(program.sounds);
  for (std::size_t f = 0; f < program.inputs.size(); ++f) {
    const FieldProgram& field = program.fields[f];
    if (field.kind != FieldProgram::Kind::kAudio) continue;
    AudioClip clip;
    clip.set_patience(sample.patience);
    const std::size_t length = field.first_state.length_field;
    TRY(run_audio(field, id, inputs[f],
                  length < inputs.size() ? inputs[length] : std::span<const std::byte>(), clip));
    OwnedTensor& tensor = sample.tensors[f];
    tensor.spec = program.outputs[f];
    if (tensor.spec.shape.size() == 2) tensor.spec.shape.front() = clip.rows();
    tensor.spec.shape.back() = clip.columns();
    tensor.data.resize(static_cast<std::size_t>(tensor.spec.bytes()));
    clip.store(tensor.spec.dtype == DType::kInt16, tensor.data.data());
    valid[field.sound] = clip.valid();
  }
  for (std::size_t f = 0; f < program.fields.size(); ++f) {
    const FieldProgram& field = program.fields[f];
    if (field.kind != FieldProgram::Kind::kLength) continue;
    OwnedTensor length{program.outputs[f], {}};
    length.data.resize(sizeof(std::int64_t));
    std::memcpy(length.data.data(), &valid[field.sound], sizeof(std::int64_t));
    while (sample.tensors.size() <= f) sample.tensors.emplace_back();
    sample.tensors[f] = std::move(length);
  }
  return {};
}

// The op boxes where it stands, or before the first op where another part of the plan had it.
Status begin_objects(const Program& program, std::span<const std::span<const std::byte>> inputs,
                     Sample& sample) {
  sample.has_objects = true;
  return load_objects(program.objects, inputs, size_of(sample.tensors[program.objects.image]),
                      sample.objects);
}

void end_objects(const Program& program, std::span<const std::span<const std::byte>> inputs, Sample& sample) {
  if (program.objects.op == nullptr) return;
  while (sample.tensors.size() < program.outputs.size()) sample.tensors.emplace_back();
  std::vector<std::byte*> outputs(program.outputs.size());
  for (std::size_t f = 0; f < outputs.size(); ++f) {
    if (program.fields[f].kind != FieldProgram::Kind::kObjects) continue;
    OwnedTensor& tensor = sample.tensors[f];
    tensor.spec = program.outputs[f];
    tensor.data.assign(static_cast<std::size_t>(tensor.spec.bytes()), std::byte{});
    outputs[f] = tensor.data.data();
  }
  store_objects(program.objects, inputs, sample.objects, outputs);
}

}  // namespace

Result<std::vector<OwnedTensor>> run_op_by_op(const Program& program, const SampleId& id,
                                              std::span<const std::span<const std::byte>> inputs,
                                              Patience* patience) {
  const auto& fields = program.inputs;
  CHECK(inputs.size() == fields.size());
  Sample sample;
  sample.patience = patience;
  sample.decoder.set_patience(patience);
  sample.resizer.set_patience(patience);
  PassPrice price(program.options.sample_ns_max);
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const bool encoded = fields[f].kind == SourceField::Kind::kEncoded;
    const bool rows = fields[f].rows_max >= 0;
    const bool sized = !encoded && !rows && fields[f].spec.bytes() < 0;
    const std::span<const std::byte> bytes = sized ? packed_pixels(inputs[f]) : inputs[f];
    OwnedTensor tensor{fields[f].spec, {bytes.begin(), bytes.end()}};
    if (sized) {
      const ImageSize size = packed_size(inputs[f]);
      tensor.spec.shape[0] = size.height;
      tensor.spec.shape[1] = size.width;
    }
    if (rows) {
      TensorSpec one = tensor.spec;
      one.shape[0] = 1;
      tensor.spec.shape[0] = static_cast<std::int64_t>(inputs[f].size()) / one.bytes();
    } else if (encoded)
      tensor.spec.shape = {static_cast<std::int64_t>(inputs[f].size())};
    else
      CHECK(tensor.spec.bytes() == static_cast<std::int64_t>(bytes.size()));
    sample.tensors.push_back(std::move(tensor));
  }
  TRY(check_raws(program, inputs));
  TRY(run_sounds(program, id, inputs, sample));
  if (program.objects.op != nullptr && !program.objects.from_source)
    TRY(begin_objects(program, inputs, sample));
  for (const Program::OpProgram& entry : program.ops) {
    const OpKind kind = entry.op->traits().kind;
    if (kind == OpKind::kGeometric) TRY(move_pixels(program, entry, id, price, sample));
    if (kind == OpKind::kViews) see_twice(entry, sample);
    if (kind == OpKind::kObjects) {
      if (entry.op == program.objects.op) TRY(begin_objects(program, inputs, sample));
      static_cast<const ObjectOp*>(entry.op)->apply(sample.objects);
    }
    for (const std::size_t f : entry.fields) {
      if (const DecodeRaw* const raw = as_decode_raw(*entry.op))
        sample.tensors[f].spec = raw->row_of(sample.tensors[f].spec.name);
      else if (kind == OpKind::kDecode)
        TRY(decode(program, static_cast<const DecodeImage&>(*entry.op), price, sample, sample.tensors[f]));
      if (kind == OpKind::kColor) TRY(recolor(entry, id, patience, price, sample.tensors[f]));
      if (kind == OpKind::kPoint) compute(entry, f, sample.tensors[f]);
      // After each: what the last one left is not what it should be if it was given up.
      if (patience && !patience->ask()) return fail(Code::kTimeout, "the sample was given up");
    }
  }
  end_objects(program, inputs, sample);
  return std::move(sample.tensors);
}

}  // namespace carya::transforms
