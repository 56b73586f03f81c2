#include "transforms/plan/user_plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/clock.h"
#include "transforms/plan/packing.h"
#include "transforms/plan/program.h"
#include "transforms/plan/scratch.h"
#include "transforms/user/user_op.h"

namespace carya::transforms {
namespace {

using Inputs = std::span<const std::span<const std::byte>>;
using Outputs = std::span<std::byte* const>;

/// The random numbers of one call, as the interface has them.
struct Random : carya_random {
  SampleRng rng;
  explicit Random(SampleRng numbers) : carya_random{&next_of}, rng(numbers) {}
  static std::uint32_t next_of(carya_random* self) { return static_cast<Random*>(self)->rng.next_u32(); }
};

/// The operation on one field, as it was planned.
struct UserField {
  std::size_t index = 0;
  TensorSpec in, out;
  std::shared_ptr<void> state;
};

/// One operation of a user's own, with the fields that it takes.
struct UserStep {
  const UserOp* op = nullptr;
  std::size_t index = 0;  // in the pipeline
  DrawKey key{};
  std::vector<UserField> fields;
};

/// The sizes that a tensor has in one record.
TensorSpec sized(const TensorSpec& spec, std::span<const std::byte> tensor) {
  TensorSpec found = spec;
  if (spec.bytes() >= 0) return found;
  const ImageSize size = packed_size(tensor);
  found.shape[0] = size.height;
  found.shape[1] = size.width;
  return found;
}

std::span<const std::byte> values_of(const TensorSpec& spec, std::span<const std::byte> tensor) {
  return spec.bytes() >= 0 ? tensor : packed_pixels(tensor);
}

/// The spec of the result for a record with these sizes.
Result<TensorSpec> made_of(const UserOp& op, const UserField& field, const TensorSpec& in) {
  if (field.out.bytes() >= 0) return field.out;
  auto made = op.library().plan(op.parameters(), in);
  if (!made) return fail(Code::kCorrupt, made.error().message);
  if (made->bytes() < 0 || made->shape.size() != field.out.shape.size() || made->dtype != field.out.dtype ||
      made->shape.back() != field.out.shape.back())
    return fail(Code::kCorrupt, op.name() + ": its plan() makes another array of " + in.to_string() +
                                    " than of pictures of any size");
  return made;
}

Status call(const UserStep& step, const UserField& field, const SampleId& id, const TensorSpec& in,
            const std::byte* data, const TensorSpec& out, std::byte* result) {
  const carya_op& functions = step.op->library().functions();
  const carya_tensor from = to_interface(in), to = to_interface(out);
  Random random(step.key.at(id.epoch, id.record, id.occurrence));
  char reason[CARYA_OP_REASON + 1] = {};
  if (functions.run(field.state.get(), &from, data, &to, result, functions.random != 0 ? &random : nullptr,
                    reason) != 0)
    return fail(Code::kCorrupt, step.op->name() + ": " + reason_of(reason));
  return {};
}

class UserPlan final : public Plan {
 public:
  /// `part_is_empty`: no ops are in it.
  UserPlan(std::vector<std::shared_ptr<const Plan>> parts, std::vector<bool> part_is_empty,
           std::vector<UserStep> steps)
      : parts_(std::move(parts)),
        part_is_empty_(std::move(part_is_empty)),
        steps_(std::move(steps)),
        ends_with_step_(part_is_empty_.back()) {}

  const std::vector<SourceField>& inputs() const override { return parts_.front()->inputs(); }
  const std::vector<TensorSpec>& outputs() const override { return parts_.back()->outputs(); }
  bool decodes_windows() const override { return parts_.front()->decodes_windows(); }
  bool takes_packed(std::size_t field) const override { return parts_.front()->takes_packed(field); }

  Status run(Scratch& scratch, const SampleId& id, Inputs inputs, Outputs outputs,
             std::span<FieldIndex> indexes) const override {
    FieldBytes fields;
    TRY(run_before_last(scratch, id, inputs, indexes, fields, ends_with_step_ ? outputs : Outputs{}));
    if (ends_with_step_) return {};
    return parts_.back()->run(scratch, id, std::span(fields).first(parts_.back()->inputs().size()), outputs);
  }

  Status pack(Scratch& scratch, const SampleId& id, Inputs inputs, const PackRoom& room,
              std::span<FieldIndex> indexes) const override {
    FieldBytes fields;
    TRY(run_before_last(scratch, id, inputs, indexes, fields, {}));
    if (ends_with_step_) return pack_as_they_are(std::span(fields).first(outputs().size()), room);
    return parts_.back()->pack(scratch, id, std::span(fields).first(parts_.back()->inputs().size()), room);
  }

  void unpack(std::span<const std::byte> packed,
              std::span<std::span<const std::byte>> inputs) const override {
    parts_.front()->unpack(packed, inputs);
  }
  bool can_unpack(std::span<const std::byte> packed) const override {
    return parts_.front()->can_unpack(packed);
  }

  Result<std::vector<OwnedTensor>> sample(const SampleId& id, Inputs inputs) const override {
    ASSIGN(std::vector<OwnedTensor> tensors, parts_.front()->sample(id, inputs));
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      for (const UserField& field : steps_[k].fields) {
        OwnedTensor& tensor = tensors[field.index];
        ASSIGN(TensorSpec out, made_of(*steps_[k].op, field, tensor.spec));
        out.name = tensor.spec.name;
        OwnedTensor made{.spec = std::move(out), .data = {}};
        made.data.assign(static_cast<std::size_t>(made.spec.bytes()), std::byte{});  // it may not write all
        TRY(call(steps_[k], field, id, tensor.spec, tensor.data.data(), made.spec, made.data.data()));
        tensor = std::move(made);
      }
      if (part_is_empty_[k + 1]) continue;
      const std::vector<std::vector<std::byte>> packed = packed_for(*parts_[k + 1], tensors);
      FieldBytes fields;
      for (std::size_t f = 0; f < packed.size(); ++f) fields[f] = packed[f];
      ASSIGN(tensors, parts_[k + 1]->sample(id, std::span(fields).first(packed.size())));
    }
    return tensors;
  }

  // The stages of the parts, and of each operation between them.
  void collect_profile(Scratch& scratch, std::vector<OpProfile>& total) const override {
    std::vector<OpProfile> now;
    StageCounters& counters = scratch.impl().counters_of(number_);
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      std::vector<OpProfile> part;
      parts_[k]->collect_profile(scratch, part);
      std::ranges::move(part, std::back_inserter(now));
      if (k == steps_.size()) break;
      const StageCounters::Stage& stage = counters.stages[k];
      now.push_back({.name = steps_[k].op->name(),
                     .samples = counters.samples,
                     .timed_samples = counters.timed_samples,
                     .cpu_ns = stage.cpu_ns,
                     .bytes_in = stage.bytes_in,
                     .bytes_out = stage.bytes_out,
                     .ops = {static_cast<std::uint32_t>(steps_[k].index)}});
    }
    counters = {.plan = number_, .untimed = counters.untimed};
    if (total.empty()) {
      total = std::move(now);
      return;
    }
    for (std::size_t i = 0; i < now.size() && i < total.size(); ++i) {
      total[i].samples += now[i].samples;
      total[i].timed_samples += now[i].timed_samples;
      total[i].cpu_ns += now[i].cpu_ns;
      total[i].bytes_in += now[i].bytes_in;
      total[i].bytes_out += now[i].bytes_out;
      total[i].pictures += now[i].pictures;
      total[i].height += now[i].height;
      total[i].width += now[i].width;
    }
  }
  void collect_decodes(Scratch& scratch, DecodePaths& total) const override {
    parts_.front()->collect_decodes(scratch, total);  // they are the scratch's, of whatever plan
  }

 private:
  static std::vector<std::vector<std::byte>> packed_for(const Plan& part,
                                                        const std::vector<OwnedTensor>& tensors) {
    std::vector<std::vector<std::byte>> packed;
    for (std::size_t f = 0; f < tensors.size(); ++f) {
      const TensorSpec& spec = part.inputs()[f].spec;
      std::vector<std::byte>& bytes = packed.emplace_back(spec.bytes() < 0 ? kPackedSizeBytes : 0);
      if (spec.bytes() < 0)
        pack_size(spec, {tensors[f].spec.shape[0], tensors[f].spec.shape[1]}, bytes.data());
      bytes.insert(bytes.end(), tensors[f].data.begin(), tensors[f].data.end());
    }
    return packed;
  }

  // All but the last part. With `outputs` the last step writes there, and what it does not take is copied.
  Status run_before_last(Scratch& scratch, const SampleId& id, Inputs inputs, std::span<FieldIndex> indexes,
                         FieldBytes& fields, Outputs outputs) const {
    Scratch::Impl& impl = scratch.impl();
    StageCounters& counters = impl.counters_of(number_);
    const bool timed = counters.untimed == 0;
    counters.untimed = timed ? kEvery : counters.untimed - 1;
    ++counters.samples;
    counters.timed_samples += timed;
    std::ranges::copy(inputs, fields.begin());
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      const Plan& part = *parts_[k];
      const bool last = !outputs.empty() && k + 1 == steps_.size();
      Scratch::Impl::Between& between = impl.between[k % 2];
      if (part_is_empty_[k]) {
        TRY(run_timed(impl, timed, k, id, fields, last ? outputs : Outputs{}));
        continue;
      }
      std::span<const std::byte> packed;
      const auto room = [&](std::uint64_t bytes) -> std::byte* {
        if (!between.packed.reserve(bytes)) return nullptr;
        auto* const memory = reinterpret_cast<std::byte*>(between.packed.data());
        packed = {memory, bytes};
        return memory;
      };
      const std::size_t count = part.inputs().size();
      TRY(part.pack(scratch, id, std::span(fields).first(count), room,
                    k == 0 ? indexes : std::span<FieldIndex>()));
      const std::size_t made = part.outputs().size();
      transforms::unpack(part.outputs(), packed, std::span(fields).first(made));
      TRY(run_timed(impl, timed, k, id, fields, last ? outputs : Outputs{}));
    }
    return {};
  }

  Status run_timed(Scratch::Impl& impl, bool timed, std::size_t k, const SampleId& id, FieldBytes& fields,
                   Outputs outputs) const {
    const std::int64_t begin_ns = timed ? impl.cpu_ns() : 0;
    const std::uint64_t bytes_in = timed ? bytes_of(steps_[k], fields) : 0;
    TRY(run_step(steps_[k], id, impl.between[k % 2].made,
                 std::span(fields).first(parts_[k]->outputs().size()), outputs));
    // Another plan of this thread may have taken the place of the counters meanwhile.
    if (timed) {
      StageCounters::Stage& stage = impl.counters_of(number_).stages[k];
      stage.cpu_ns += static_cast<std::uint64_t>(impl.cpu_ns() - begin_ns);
      stage.bytes_in += bytes_in;
      stage.bytes_out += bytes_of(steps_[k], fields);
    }
    return {};
  }

  // FieldBytes between two parts are as pack() leaves them.
  static Status pack_as_they_are(Inputs fields, const PackRoom& room) {
    std::uint64_t end = 0;
    for (const auto& field : fields) end = align_up(end, std::uint64_t{kPackAlign}) + field.size();
    std::byte* const memory = room(end);
    if (memory == nullptr) return fail(Code::kExhausted, "no memory for a sample that is kept");
    end = 0;
    for (const auto& field : fields) {
      end = align_up(end, std::uint64_t{kPackAlign});
      std::memcpy(memory + end, field.data(), field.size());
      end += field.size();
    }
    return {};
  }

  // What a step's fields have of this record: what is declared has no size where pictures have any.
  static std::uint64_t bytes_of(const UserStep& step, const FieldBytes& fields) {
    std::uint64_t bytes = 0;
    for (const UserField& field : step.fields) bytes += fields[field.index].size();
    return bytes;
  }

  static Status run_step(const UserStep& step, const SampleId& id, RowBuffer& memory,
                         std::span<std::span<const std::byte>> fields, Outputs outputs) {
    std::array<TensorSpec, kFieldsMax> ins, outs;
    std::array<std::uint64_t, kFieldsMax> offsets{};
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < step.fields.size(); ++i) {
      const UserField& field = step.fields[i];
      ins[i] = sized(field.in, fields[field.index]);
      ASSIGN(outs[i], made_of(*step.op, field, ins[i]));
      offsets[i] = align_up(end, std::uint64_t{kPackAlign});
      end = offsets[i] + kPackedSizeBytes + static_cast<std::uint64_t>(outs[i].bytes());
    }
    if (outputs.empty() && !memory.reserve(end))
      return fail(Code::kExhausted, step.op->name() + ": no memory for its result");
    for (std::size_t i = 0; i < step.fields.size(); ++i) {
      const UserField& field = step.fields[i];
      const std::span<const std::byte> given = fields[field.index];
      auto* const base =
          outputs.empty() ? reinterpret_cast<std::byte*>(memory.data()) + offsets[i] : outputs[field.index];
      const bool has_size = field.out.bytes() < 0;
      std::byte* const at =
          has_size ? pack_size(field.out, {outs[i].shape[0], outs[i].shape[1]}, base) : base;
      TRY(call(step, field, id, ins[i], values_of(field.in, given).data(), outs[i], at));
      fields[field.index] = {base, at + outs[i].bytes()};
    }
    for (std::size_t f = 0; f < outputs.size(); ++f)
      if (fields[f].data() != outputs[f]) std::memcpy(outputs[f], fields[f].data(), fields[f].size());
    return {};
  }

  static constexpr std::uint64_t kEvery = 31;  // between two samples that are timed

  std::vector<std::shared_ptr<const Plan>> parts_;  // one more than steps_
  std::vector<bool> part_is_empty_;
  std::vector<UserStep> steps_;
  bool ends_with_step_;
  std::uint64_t number_ = next_plan_number();
};

Result<UserStep> make_step(const UserOp& op, std::size_t index, DrawKey key, const Plan& before,
                           const Plan& after) {
  UserStep step{.op = &op, .index = index, .key = key, .fields = {}};
  for (std::size_t f = 0; f < before.outputs().size(); ++f) {
    const TensorSpec& in = before.outputs()[f];
    if (!op.takes(in.name)) continue;
    UserField field{.index = f, .in = in, .out = after.inputs()[f].spec, .state = {}};
    TRY(op.library().plan(op.parameters(), in, &field.state));
    step.fields.push_back(std::move(field));
  }
  return step;
}

}  // namespace

bool has_user_ops(const Pipeline& pipeline, const PlanOptions& options) {
  const auto is_user = [&](std::size_t op) { return pipeline.ops()[op]->traits().kind == OpKind::kUser; };
  const auto order = running_order(pipeline, options);
  if (!order) return false;  // compile_program() says so
  const std::size_t last = std::min(options.last, order->size());
  return std::any_of(order->begin() + static_cast<std::ptrdiff_t>(std::min(options.first, last)),
                     order->begin() + static_cast<std::ptrdiff_t>(last), is_user);
}

Result<std::shared_ptr<const Plan>> compile_around_user_ops(std::shared_ptr<const Pipeline> pipeline,
                                                            const PlanOptions& options) {
  ASSIGN(const std::vector<std::size_t> order, running_order(*pipeline, options));
  const std::size_t last = std::min(options.last, order.size());
  PlanOptions of_part = options;
  of_part.first = std::min(options.first, last);
  of_part.packed = true;
  std::vector<std::shared_ptr<const Plan>> parts;
  std::vector<bool> is_empty;
  std::vector<std::size_t> places;
  for (std::size_t i = of_part.first; i <= last; ++i) {
    const bool ends = i == last;
    if (!ends && pipeline->ops()[order[i]]->traits().kind != OpKind::kUser) continue;
    of_part.last = i;
    is_empty.push_back(of_part.first == i);
    ASSIGN(auto part, Plan::compile(pipeline, of_part));
    parts.push_back(std::move(part));
    if (!ends) places.push_back(i);
    of_part.first = i + 1;
  }
  if (pipeline->batch() && !options.packed)
    for (const TensorSpec& spec : parts.back()->outputs())
      if (spec.bytes() < 0)
        return fail(Code::kInvalidArgument, "batch: " + spec.name + " is " + spec.to_string() +
                                                "; give fixed shapes: add a crop or resize");
  const auto keys = keys_of_ops(*pipeline, options.seed);
  std::vector<UserStep> steps;
  for (std::size_t k = 0; k < places.size(); ++k) {
    const std::size_t index = order[places[k]];
    ASSIGN(UserStep step, make_step(static_cast<const UserOp&>(*pipeline->ops()[index]), index,
                                    keys[index].front(), *parts[k], *parts[k + 1]));
    steps.push_back(std::move(step));
  }
  return std::shared_ptr<const Plan>(
      std::make_shared<UserPlan>(std::move(parts), std::move(is_empty), std::move(steps)));
}

}  // namespace carya::transforms
