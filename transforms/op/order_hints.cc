#include "transforms/op/order_hints.h"

#include <fmt/core.h>
#include <algorithm>
#include <optional>
#include <set>

#include "transforms/op/params.h"

namespace carya::transforms {
namespace {

constexpr std::string_view kKeep = "keep_position";
constexpr std::string_view kDepends = "depends_on";

std::string in_quotes(std::string_view text) {
  std::string out;
  append_json_string(out, text.substr(0, 60));
  return out;
}

std::string name_list(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + in_quotes(name);
  return "[" + out + "]";
}

std::size_t occurrence(const std::vector<std::unique_ptr<Op>>& ops, std::size_t index) {
  return static_cast<std::size_t>(std::count_if(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(index),
                                                [&](auto& op) { return op->name() == ops[index]->name(); }));
}

// Looks names up, and complains of those that cannot be.
class Dependencies {
 public:
  Dependencies(const std::vector<std::unique_ptr<Op>>& ops, const std::vector<GivenHints>& given)
      : ops_(ops), given_(given), labels_(op_labels(ops)) {
    for (std::size_t i = 0; i < ops.size(); ++i)
      numbered_.push_back(fmt::format("{}#{}", ops[i]->name(), occurrence(ops, i)));
  }

  Result<std::vector<OrderHints>> look_up() const {
    std::vector<OrderHints> hints(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      hints[i].keep_position = given_[i].keep_position;
      for (const std::string& wanted : given_[i].depends_on) {
        const std::vector<std::size_t> found = named(wanted);
        const auto earlier =
            static_cast<std::size_t>(std::ranges::count_if(found, [&](auto k) { return k < i; }));
        if (earlier != 1) return refuse(i, wanted, found, earlier);
        hints[i].depends_on.push_back(found.front());
      }
    }
    return hints;
  }

 private:
  /// All ops that the text may mean, in order.
  std::vector<std::size_t> named(std::string_view wanted) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (ops_[i]->name() == wanted || numbered_[i] == wanted) found.push_back(i);
    return found;
  }

  std::unexpected<Error> refuse(std::size_t op, const std::string& wanted,
                                const std::vector<std::size_t>& found, std::size_t earlier) const {
    const std::string subject = labels_[op] + ": depends_on " + in_quotes(wanted);
    if (earlier > 1) {
      std::string choices;
      for (std::size_t k = 0; k < earlier; ++k)
        choices += (k == 0 ? "" : " or ") + in_quotes(labels_[found[k]]);
      return fail(Code::kInvalidArgument,
                  fmt::format("{} names {} ops; write {}", subject, earlier, choices));
    }
    if (found.empty()) {
      std::string known;
      for (std::size_t k = 0; k < op; ++k) known += (k == 0 ? "" : ", ") + labels_[k];
      return fail(Code::kInvalidArgument,
                  subject + " names no op before it; there are " + (known.empty() ? "none" : known));
    }
    const std::size_t later = found.front();
    if (later == op) return fail(Code::kInvalidArgument, subject + " names itself; remove the dependency");
    std::vector<std::size_t> way{op, later};
    std::vector<bool> seen(ops_.size(), false);
    if (leads_back(op, way, seen)) {
      std::string circle;
      for (const std::size_t k : way) circle += labels_[k] + " -> ";
      return fail(Code::kInvalidArgument, "depends_on goes in a circle: " + circle + labels_[op] +
                                              "; remove one of these dependencies");
    }
    return fail(Code::kInvalidArgument, subject + ", but the pipeline runs " + labels_[later] +
                                            " after it; declare it first or remove the dependency");
  }

  /// Whether dependencies lead from the end of `way` to `start`; `way` is then that way.
  bool leads_back(std::size_t start, std::vector<std::size_t>& way, std::vector<bool>& seen) const {
    seen[way.back()] = true;
    for (const std::string& wanted : given_[way.back()].depends_on)
      for (const std::size_t next : named(wanted)) {
        if (next == start) return true;
        if (seen[next]) continue;
        way.push_back(next);
        if (leads_back(start, way, seen)) return true;
        way.pop_back();
      }
    return false;
  }

  const std::vector<std::unique_ptr<Op>>& ops_;
  const std::vector<GivenHints>& given_;
  std::vector<std::string> labels_;
  std::vector<std::string> numbered_;
};

}  // namespace

std::string GivenHints::in_json(const std::string& op_json) const {
  std::string added;
  if (keep_position) added += R"(,"keep_position":true)";
  if (!depends_on.empty()) {
    Json::Array names;
    for (const std::string& name : depends_on) names.emplace_back(name);
    added += R"(,"depends_on":)" + Json(std::move(names)).text();
  }
  return op_json.substr(0, op_json.size() - 1) + added + "}";
}

std::string GivenHints::in_text(const std::string& op_text) const {
  std::string added;
  if (keep_position) added += ", keep_position=True";
  if (!depends_on.empty()) added += ", depends_on=" + name_list(depends_on);
  const std::string head = op_text.substr(0, op_text.size() - 1);
  if (head.ends_with('(') && !added.empty()) added.erase(0, 2);
  return head + added + ")";
}

bool has_hints(const Json& object) {
  return object.find(kKeep) || object.find(kDepends);
}

Result<GivenHints> take_hints(Json& object) {
  if (!has_hints(object)) return GivenHints{};
  const Json* kind = object.find("op");
  const std::string* name = kind ? kind->get<std::string>() : nullptr;
  Params params(name ? *name : "ops", object, "op");
  GivenHints hints{.keep_position = params.boolean(kKeep, false),
                   .depends_on = params.strings(kDepends, std::vector<std::string>{})};
  const std::set<std::string> distinct(hints.depends_on.begin(), hints.depends_on.end());
  if (distinct.size() != hints.depends_on.size() || hints.depends_on.size() > kOpsMax)
    params.reject(kDepends, "a list of names of ops, none twice");
  TRY(params.fault());
  std::erase_if(*object.get<Json::Object>(),
                [](const Json::Member& member) { return member.first == kKeep || member.first == kDepends; });
  return hints;
}

std::vector<std::string> op_labels(const std::vector<std::unique_ptr<Op>>& ops) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto same = std::ranges::count_if(ops, [&](auto& op) { return op->name() == ops[i]->name(); });
    labels.push_back(same == 1 ? ops[i]->name() : fmt::format("{}#{}", ops[i]->name(), occurrence(ops, i)));
  }
  return labels;
}

Result<std::vector<OrderHints>> look_up(const std::vector<std::unique_ptr<Op>>& ops,
                                        const std::vector<GivenHints>& given) {
  return Dependencies(ops, given).look_up();
}

}  // namespace carya::transforms
