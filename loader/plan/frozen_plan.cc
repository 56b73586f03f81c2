#include "loader/plan/frozen_plan.h"

#include <fmt/core.h>
#include <algorithm>
#include <optional>
#include <utility>

#include "autotune/order/order.h"
#include "transforms/op/params.h"
#include "transforms/pipeline/codec_versions.h"
#include "transforms/plan/plan.h"

namespace carya::loader {
namespace {

using PlanJson = transforms::Json;
using transforms::Op;
using transforms::Params;
using transforms::Pipeline;

constexpr std::int64_t kVersion = 1;
constexpr const char* kAgain = "; freeze it again: carya plan freeze PIPELINE -o PLAN";
constexpr const char* kWhatItIs =
    "; give a plan file, which `carya plan freeze PIPELINE -o PLAN` writes, or leave plan= out";

std::unexpected<Error> refuse(const std::string& what) {
  return fail(Code::kInvalidArgument, "plan: " + what);
}

std::unexpected<Error> differs(const std::string& what) {
  return refuse(what + kAgain);
}

// The policy for broken records is no part of a plan.
std::string fingerprint_of(const Pipeline& pipeline) {
  return pipeline.fingerprint(transforms::OnError::kRaise).hex();
}

/// Of an op and of those that it does.
void add_versions(const Op& op, PlanJson::Array& versions) {
  versions.emplace_back(static_cast<std::int64_t>(op.traits().version));
  for (const auto& inner : op.inner()) add_versions(*inner, versions);
}

PlanJson version_of(const Op& op) {
  PlanJson::Array versions;
  add_versions(op, versions);
  return versions.size() == 1 ? versions.front() : PlanJson(std::move(versions));
}

PlanJson parameters_of(const Op& op) {
  PlanJson::Object parameters;
  const PlanJson whole = transforms::parse_json(op.json()).value_or(PlanJson());
  if (const auto* members = whole.get<PlanJson::Object>())
    std::ranges::copy_if(*members, std::back_inserter(parameters),
                         [](const PlanJson::Member& member) { return member.first != "op"; });
  return parameters;
}

PlanJson::Array codecs() {
  PlanJson::Array names;
  for (std::string& name : transforms::codec_versions()) names.emplace_back(std::move(name));
  return names;
}

Status compare_codecs(const PlanJson& written) {
  const PlanJson::Array here = codecs();
  const auto* list = written.get<PlanJson::Array>();
  for (std::size_t i = 0; list && i < std::min(list->size(), here.size()); ++i)
    if ((*list)[i].text() != here[i].text())
      return differs("was made with " + (*list)[i].excerpt() + ", and here is " + here[i].excerpt());
  return {};
}

std::string place(std::size_t index, const std::string& name) {
  return fmt::format("operation {}, {}", index + 1, name);
}

// The first parameter that is not the same, with both values.
Status compare_parameters(const std::string& where, const PlanJson& written, const PlanJson& here) {
  const auto* theirs = written.get<PlanJson::Object>();
  const auto* ours = here.get<PlanJson::Object>();
  if (!theirs || !ours) return refuse(where + ": parameters: got " + written.excerpt() + "; give an object");
  for (const auto& [key, value] : *ours) {
    const PlanJson* other = written.find(key);
    if (!other) return differs(where + ": has no " + key + " in the plan");
    if (other->text() != value.text())
      return differs(where + ": has " + key + " = " + other->excerpt() + " in the plan and " +
                     value.excerpt() + " here");
  }
  for (const auto& [key, value] : *theirs)
    if (!here.find(key)) return differs(where + ": has " + key.substr(0, 60) + " in the plan only");
  return {};
}

Status compare_op(std::size_t index, const PlanJson& written, const Op& here) {
  Params params(place(index, here.name()), written, "");
  if (!params.ok()) return refuse(params.fault().error().message);
  const std::string name = params.string("op");
  const PlanJson& version = params.raw("version");
  const PlanJson& parameters = params.raw("parameters");
  if (const Status read = params.finish(); !read) return refuse(read.error().message);
  if (name != here.name())
    return differs(fmt::format("operation {} is {} in the plan and {} here", index + 1,
                               PlanJson(name).excerpt(), PlanJson(here.name()).excerpt()));
  TRY(compare_parameters(params.subject(), parameters, parameters_of(here)));
  if (const PlanJson ours = version_of(here); version.text() != ours.text())
    return differs(params.subject() + ": is of version " + version.excerpt() + " in the plan and " +
                   ours.excerpt() + " here; its results may be others");
  return {};
}

Status compare_ops(const PlanJson& written, const Pipeline& pipeline) {
  const auto* list = written.get<PlanJson::Array>();
  if (!list) return refuse("ops: got " + written.excerpt() + "; give a list of operations");
  const auto& ops = pipeline.ops();
  for (std::size_t i = 0; i < std::min(list->size(), ops.size()); ++i)
    TRY(compare_op(i, (*list)[i], *ops[i]));
  if (list->size() != ops.size())
    return differs(fmt::format("is of {} operations, and the pipeline has {}", list->size(), ops.size()));
  return {};
}

Result<std::vector<std::size_t>> read_order(const PlanJson& written, const Pipeline& pipeline) {
  const auto* list = written.get<PlanJson::Array>();
  if (!list) return refuse("order: got " + written.excerpt() + "; give a list of {index, op}");
  std::vector<std::size_t> order;
  for (const PlanJson& entry : *list) {
    Params params("order", entry, "");
    if (!params.ok()) return refuse(params.fault().error().message);
    const std::int64_t index =
        params.integer("index", 0, std::max<std::int64_t>(std::ssize(pipeline.ops()) - 1, 0));
    const std::string name = params.string("op");
    if (params.ok() && static_cast<std::size_t>(index) < pipeline.ops().size() &&
        name != pipeline.ops()[static_cast<std::size_t>(index)]->name())
      params.reject("op", "\"" + pipeline.ops()[static_cast<std::size_t>(index)]->name() +
                              "\", the operation of that index");
    if (const Status read = params.finish(); !read) return refuse(read.error().message);
    order.push_back(static_cast<std::size_t>(index));
  }
  return order;
}

}  // namespace

Status check_frozen_order(const Pipeline& pipeline, const std::vector<std::size_t>& order,
                          autotune::Sense sense) {
  ASSIGN(const autotune::Chain chain, autotune::Chain::create(planner_input(pipeline, {}).chain));
  return check_order(chain, autotune::plan_of(order), sense);
}

Result<std::string> freeze_plan(const Pipeline& pipeline, const FrozenPlan& plan) {
  TRY(check_frozen_order(pipeline, plan.order, plan.sense));
  PlanJson::Array ops;
  for (const auto& op : pipeline.ops())
    ops.emplace_back(PlanJson::Object{
        {"op", op->name()}, {"version", version_of(*op)}, {"parameters", parameters_of(*op)}});
  PlanJson::Array order;
  for (const std::size_t index : plan.order)
    order.emplace_back(
        PlanJson::Object{{"index", static_cast<std::int64_t>(index)}, {"op", pipeline.ops()[index]->name()}});
  return PlanJson(PlanJson::Object{{"carya_plan", kVersion},
                                   {"pipeline", fingerprint_of(pipeline)},
                                   {"codecs", codecs()},
                                   {"reorder", std::string(autotune::sense_name(plan.sense))},
                                   {"ops", std::move(ops)},
                                   {"order", std::move(order)}})
      .text();
}

Result<FrozenPlan> read_plan(const Pipeline& pipeline, std::string_view text) {
  const Result<PlanJson> parsed = transforms::parse_json(text);
  if (!parsed) return refuse(parsed.error().message + kWhatItIs);
  const PlanJson* version = parsed->find("carya_plan");
  if (!version) return refuse(std::string("has no key carya_plan, so it is no plan") + kWhatItIs);
  if (const auto* number = version->get<std::int64_t>(); !number || *number != kVersion)
    return differs(
        fmt::format("is of format {}, and this Carya reads format {}", version->excerpt(), kVersion));
  Params params("plan", *parsed, "carya_plan");
  const std::string fingerprint = params.string("pipeline");
  const PlanJson& written_codecs = params.raw("codecs");
  const std::string reorder = params.string("reorder");
  const PlanJson& ops = params.raw("ops");
  const PlanJson& order = params.raw("order");
  for (const char* note : {"chosen_by", "machine", "date", "made_by"}) params.raw(note);
  TRY(params.finish());
  FrozenPlan plan;
  if (const auto sense = autotune::sense_from_name(reorder); sense)
    plan.sense = *sense;
  else
    return refuse(sense.error().message);
  TRY(compare_ops(ops, pipeline));
  if (fingerprint != fingerprint_of(pipeline)) {
    TRY(compare_codecs(written_codecs));
    return differs("is of pipeline " + fingerprint.substr(0, 40) + ", and this one is " +
                   fingerprint_of(pipeline));
  }
  ASSIGN(plan.order, read_order(order, pipeline));
  TRY(check_frozen_order(pipeline, plan.order, plan.sense));
  return plan;
}

}  // namespace carya::loader
