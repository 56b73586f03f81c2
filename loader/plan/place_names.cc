#include "loader/plan/place_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "transforms/op/order_hints.h"
#include "transforms/pipeline/codec_versions.h"
#include "transforms/plan/source_parts.h"

namespace carya::loader {
namespace {

using autotune::CacheForm;
using Json = nlohmann::json;

/// The name of the place before all ops.
constexpr char kReading[] = "reading";
/// What packed records are, in the names of places in files; another one when their bytes change.
constexpr char kCoefficients[] = "coefficients 1";
constexpr char kRecords[] = "records 1";

void hash_op(Hasher128& hasher, const transforms::Op& op) {
  hasher.update(std::string_view(op.json()));
  hasher.update(static_cast<std::uint64_t>(op.traits().version));
  for (const auto& inner : op.inner()) hash_op(hasher, *inner);
}

/// What is kept at a place, in words that name it: "" for the results of ops.
std::string form_of(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                    std::span<const std::size_t> order, const autotune::CachePoint& at) {
  if (at.form == CacheForm::kResults) return "";
  if (at.form == CacheForm::kRecords) return kRecords;
  std::string form = kCoefficients;
  if (const auto parts = transforms::part_at_source(pipeline, {.order = {order.begin(), order.end()}}))
    for (const std::size_t field : parts->packed) form += " " + pipeline->fields()[field].spec.name;
  return form;
}

}  // namespace

const char* form_name(const autotune::CachePoint& at) {
  switch (at.form) {
    case CacheForm::kResults:
      return "raw";
    case CacheForm::kCoefficients:
      return "coefficients";
    case CacheForm::kRecords:
      return "records";
  }
  return "";
}

std::string place_label(const transforms::Pipeline& pipeline, std::span<const std::size_t> order,
                        std::size_t ops) {
  if (ops == 0) return kReading;
  return transforms::op_labels(pipeline.ops())[order[ops - 1]];
}

std::string drawn_name(const transforms::Pipeline& pipeline, std::span<const std::size_t> order,
                       std::size_t ops, std::uint64_t seed, std::uint64_t epoch) {
  // An op's numbers are those of its name, of how many of that name were declared before it, in its part, and of the
  // record behind the views. These may list millions of records, and the name is made for each place at each look.
  // It is text and no JSON object, since it is made under the engine's lock, also where memory is short: the destructor of
  // such an object needs some, and ends the process without.
  Hasher128 views;
  views.update(std::string_view(pipeline.views_json()));
  std::string name = fmt::format("\nseed {} epoch {} views {}", seed, epoch, views.digest().hex());
  const auto before = order.first(ops);
  for (std::size_t op = 0; op <= std::ranges::max(before); ++op) {
    const auto part = pipeline.part(op);
    name += fmt::format("\n{}{}", part ? fmt::format("part {} ", *part) : "", pipeline.ops()[op]->json());
  }
  name += "\nrun";
  for (const std::size_t op : before) name += fmt::format(" {}", op);
  return name;
}

PlaceNames place_names(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                       std::span<const std::size_t> order, const autotune::CachePoint& at) {
  const std::string form = form_of(pipeline, order, at);
  PlaceNames names{.memory = form};
  Hasher128 hasher;
  hasher.update(std::string_view("carya samples 1"));
  if (!form.empty()) hasher.update(std::string_view(form));
  Json ops = Json::array();
  for (std::size_t i = 0; i < at.ops; ++i) {
    const transforms::Op& op = *pipeline->ops()[order[i]];
    hash_op(hasher, op);
    names.memory += op.json();
    ops.push_back(Json::parse(op.json()));
  }
  if (at.form != CacheForm::kRecords)
    for (const std::string& codec : transforms::codec_versions()) hasher.update(std::string_view(codec));
  for (const transforms::SourceField& field : pipeline->fields()) {
    hasher.update(static_cast<std::uint64_t>(field.kind));
    hasher.update(std::string_view(field.spec.name));
    hasher.update(std::string_view(field.spec.to_string()));
  }
  names.files = hasher.digest();
  names.about = Json{{"version", 1},
                     {"after", place_label(*pipeline, order, at.ops)},
                     {"ops", std::move(ops)},
                     {"form", form_name(at)}}
                    .dump();
  return names;
}

}  // namespace carya::loader
