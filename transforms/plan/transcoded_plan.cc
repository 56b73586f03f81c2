#include "transforms/plan/transcoded_plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/checked.h"
#include "transforms/ops/encoded/transcode.h"
#include "transforms/pipeline/source.h"
#include "transforms/plan/packing.h"
#include "transforms/plan/program.h"
#include "transforms/plan/scratch.h"

namespace carya::transforms {
namespace {

using Inputs = std::span<const std::span<const std::byte>>;
using Outputs = std::span<std::byte* const>;

class TranscodedPlan final : public Plan {
 public:
  /// `rest`: the ops behind it; null: there are none in this part.
  TranscodedPlan(std::shared_ptr<const Pipeline> pipeline, const Transcode& op,
                 std::vector<std::size_t> taken, std::shared_ptr<const Plan> rest, const ImageLimits& limits)
      : pipeline_(std::move(pipeline)),
        inputs_(pipeline_->fields()),
        op_(op),
        taken_(std::move(taken)),
        rest_(std::move(rest)),
        limits_(limits) {
    for (const SourceField& field : inputs_) specs_.push_back(field.spec);
  }

  const std::vector<SourceField>& inputs() const override { return inputs_; }
  const std::vector<TensorSpec>& outputs() const override { return rest_ ? rest_->outputs() : specs_; }
  /// An index would be of the files, which are decoded as a whole.
  bool decodes_windows() const override { return false; }

  Status run(Scratch& scratch, const SampleId& id, Inputs inputs, Outputs outputs,
             std::span<FieldIndex> indexes) const override {
    CHECK(rest_ != nullptr);
    FieldBytes fields;
    TRY(transcode(scratch.impl(), inputs, indexes, fields));
    return rest_->run(scratch, id, std::span(fields).first(inputs.size()), outputs);
  }

  Status pack(Scratch& scratch, const SampleId& id, Inputs inputs, const PackRoom& room,
              std::span<FieldIndex> indexes) const override {
    FieldBytes fields;
    TRY(transcode(scratch.impl(), inputs, indexes, fields));
    if (rest_) return rest_->pack(scratch, id, std::span(fields).first(inputs.size()), room);
    std::array<std::uint64_t, kFieldsMax> offsets{};
    std::uint64_t end = 0;
    const auto size_of = [&](std::size_t f) {
      return ImageSize{static_cast<std::int64_t>(fields[f].size()), 1};
    };
    for (std::size_t f = 0; f < inputs.size(); ++f) {
      offsets[f] = align_up(end, std::uint64_t{kPackAlign});
      end = offsets[f] + packed_bytes(specs_[f], size_of(f));
    }
    std::byte* const memory = room(end);
    if (memory == nullptr) return fail(Code::kExhausted, "no memory for a sample that is kept");
    for (std::size_t f = 0; f < inputs.size(); ++f) {
      std::byte* const at = pack_size(specs_[f], size_of(f), memory + offsets[f]);
      if (!fields[f].empty()) std::memcpy(at, fields[f].data(), fields[f].size());
      if (specs_[f].bytes() < 0) std::memset(at + fields[f].size(), 0, kPackedSlackBytes);
    }
    return {};
  }

  void unpack(std::span<const std::byte>, std::span<std::span<const std::byte>>) const override {
    CHECK(false);  // nothing is packed before it
  }

  Result<std::vector<OwnedTensor>> sample(const SampleId& id, Inputs inputs) const override {
    Scratch scratch;
    FieldBytes fields;
    TRY(transcode(scratch.impl(), inputs, {}, fields));
    if (rest_) return rest_->sample(id, std::span(fields).first(inputs.size()));
    std::vector<OwnedTensor> tensors;
    for (std::size_t f = 0; f < inputs.size(); ++f) {
      OwnedTensor tensor{specs_[f], {fields[f].begin(), fields[f].end()}};
      if (tensor.spec.bytes() < 0) tensor.spec.shape = {static_cast<std::int64_t>(fields[f].size())};
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

  /// A stage of its own, then those of the rest. Every sample is timed: it takes longer than the clock by far.
  void collect_profile(Scratch& scratch, std::vector<OpProfile>& total) const override {
    StageCounters& counters = scratch.impl().counters_of(number_);
    const StageCounters::Stage& stage = counters.stages[0];
    std::vector<OpProfile> now;
    now.push_back({.name = op_.name(),
                   .samples = counters.samples,
                   .timed_samples = counters.samples,
                   .cpu_ns = stage.cpu_ns,
                   .bytes_in = stage.bytes_in,
                   .bytes_out = stage.bytes_out,
                   .ops = {0}});
    counters = {.plan = number_};
    std::vector<OpProfile> rest;
    if (!total.empty()) rest.assign(std::next(total.begin()), total.end());
    if (rest_) rest_->collect_profile(scratch, rest);
    if (!total.empty()) {
      OpProfile& sum = total.front();
      now.front().samples += sum.samples;
      now.front().timed_samples += sum.timed_samples;
      now.front().cpu_ns += sum.cpu_ns;
      now.front().bytes_in += sum.bytes_in;
      now.front().bytes_out += sum.bytes_out;
    }
    std::ranges::move(rest, std::back_inserter(now));
    total = std::move(now);
  }
  void collect_decodes(Scratch& scratch, DecodePaths& total) const override {
    if (rest_) rest_->collect_decodes(scratch, total);
  }

 private:
  Status transcode(Scratch::Impl& impl, Inputs inputs, std::span<FieldIndex> indexes,
                   FieldBytes& fields) const {
    CHECK(inputs.size() == inputs_.size());
    for (FieldIndex& index : indexes) {  // nothing is learned of the files, and nothing was used
      index.made.clear();
      index.use = IndexUse::kNone;
      index.damaged = false;
    }
    const std::int64_t begin_ns = impl.cpu_ns();
    std::uint64_t bytes_in = 0, bytes_out = 0;
    while (impl.transcoders.size() < taken_.size()) impl.transcoders.emplace_back();
    std::ranges::copy(inputs, fields.begin());
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      const std::size_t f = taken_[i];
      auto made = impl.transcoders[i].run(inputs[f], op_.spec(), limits_, &impl.patience);
      if (!made) {
        const std::string& field = specs_[f].name;
        const std::string where = field == kMainField ? op_.name() : op_.name() + ": " + field;
        return fail(made.error().code, where + ": " + made.error().message, made.error().sys_errno);
      }
      bytes_in += inputs[f].size();
      bytes_out += made->size();
      fields[f] = *made;
    }
    StageCounters& counters = impl.counters_of(number_);
    ++counters.samples;
    counters.stages[0].cpu_ns += static_cast<std::uint64_t>(impl.cpu_ns() - begin_ns);
    counters.stages[0].bytes_in += bytes_in;
    counters.stages[0].bytes_out += bytes_out;
    return {};
  }

  const std::shared_ptr<const Pipeline> pipeline_;
  const std::vector<SourceField>& inputs_;  // of the pipeline, as is op_
  const Transcode& op_;
  const std::vector<std::size_t> taken_;
  const std::shared_ptr<const Plan> rest_;
  const ImageLimits limits_;
  std::vector<TensorSpec> specs_;
  const std::uint64_t number_ = next_plan_number();
};

}  // namespace

bool begins_with_transcode(const Pipeline& pipeline, const PlanOptions& options) {
  const auto order = running_order(pipeline, options);
  return order && options.first == 0 && options.last > 0 && !order->empty() &&
         as_transcode(*pipeline.ops()[order->front()]) != nullptr;
}

Result<std::shared_ptr<const Plan>> compile_behind_transcode(std::shared_ptr<const Pipeline> pipeline,
                                                             PlanOptions options) {
  ASSIGN(const std::vector<std::size_t> order, running_order(*pipeline, options));
  const Transcode& op = *as_transcode(*pipeline->ops()[order.front()]);
  std::vector<FieldState> states = initial_states(pipeline->fields());
  std::vector<std::size_t> taken;
  TRY(op.infer(states, taken));
  const ImageLimits limits{options.image_pixels_max, options.jpeg_scans_max};
  const bool packed = std::exchange(options.packed, true);
  options.first = 1;
  std::shared_ptr<const Plan> rest;
  if (std::min(options.last, order.size()) > 1) {
    ASSIGN(rest, Plan::compile(pipeline, options));
  }
  for (const TensorSpec& spec : rest ? rest->outputs() : pipeline->outputs()) {
    if (packed || spec.bytes() >= 0) continue;
    if (options.last < order.size())
      return fail(Code::kInvalidArgument, "plan: a part ends where " + spec.name + " is " + spec.to_string() +
                                              "; give a place where everything is decoded and has a fixed "
                                              "shape");
    if (pipeline->batch())
      return fail(Code::kInvalidArgument, "batch: " + spec.name + " is " + spec.to_string() +
                                              "; give fixed shapes: add decode_image and a crop or resize");
  }
  if (packed && !rest)
    for (const FieldState& state : states)
      if (state.form != FieldState::Form::kEncoded && !can_pack(state))
        return fail(Code::kInvalidArgument, "plan: " + state.spec.name + " is " + state.spec.to_string() +
                                                ", which cannot be kept beside transcoded files");
  return std::make_shared<const TranscodedPlan>(std::move(pipeline), op, std::move(taken), std::move(rest),
                                                limits);
}

}  // namespace carya::transforms
