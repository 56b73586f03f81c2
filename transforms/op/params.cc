#include "transforms/op/params.h"

#include <algorithm>
#include <set>

namespace carya::transforms {
namespace {

std::string one_of(std::initializer_list<std::string_view> allowed) {
  std::string out = "one of ";
  for (const std::string_view name : allowed) {
    if (out.size() > 7) out += ", ";
    append_json_string(out, name);
  }
  return out;
}

std::string bounds(const Json& low, const Json& high) {
  return low.text() + " to " + high.text();
}

// An integer is a number too: 1 and 1.0 mean the same, and the canonical form says 1.0.
std::optional<double> as_number(const Json& value) {
  if (const auto* integer = value.get<std::int64_t>()) return static_cast<double>(*integer);
  if (const auto* large = value.get<std::uint64_t>()) return static_cast<double>(*large);
  if (const auto* number = value.get<double>()) return *number;
  return std::nullopt;
}

}  // namespace

Params::Params(std::string subject, const Json& object, std::string_view kind_key)
    : subject_(std::move(subject)), object_(object) {
  if (!object.get<Json::Object>()) {
    fault_ = Error{Code::kInvalidArgument, subject_ + ": got " + object.excerpt() + "; give an object"};
    return;
  }
  if (const Json* kind = kind_key.empty() ? nullptr : object.find(kind_key)) keep(kind_key, *kind);
}

const Json* Params::take(std::string_view key) {
  return object_.find(key);
}

void Params::reject(std::string_view key, std::string_view allowed) {
  if (fault_) return;
  const Json* given = take(key);
  fault_ =
      Error{Code::kInvalidArgument, subject_ + ": " + std::string(key) +
                                        (given ? ": got " + given->excerpt() : std::string(" is missing")) +
                                        "; give " + std::string(allowed)};
}

Status Params::fault() const {
  if (fault_) return std::unexpected(*fault_);
  return {};
}

bool Params::raw_is_null(std::string_view key) {
  const Json* given = take(key);
  return !given || given->is_null();
}

Status Params::finish() {
  if (!fault_) {
    for (const auto& [key, value] : *object_.get<Json::Object>()) {
      const auto known = [&](const Json::Member& member) { return member.first == key; };
      if (std::any_of(canonical_.begin(), canonical_.end(), known)) continue;
      std::string allowed;
      for (const auto& member : canonical_) allowed += (allowed.empty() ? "" : ", ") + member.first;
      fault_ = Error{Code::kInvalidArgument, subject_ + ": unknown key " + Json(key.substr(0, 60)).excerpt() +
                                                 ": got " + value.excerpt() + "; give " + allowed};
      break;
    }
  }
  return fault();
}

void Params::set_canonical(std::string_view key, Json value) {
  for (auto& member : canonical_) {
    if (member.first != key) continue;
    member.second = std::move(value);
    return;
  }
}

bool Params::boolean(std::string_view key, bool otherwise) {
  const Json* given = take(key);
  bool value = otherwise;
  if (given) {
    if (const bool* truth = given->get<bool>())
      value = *truth;
    else
      reject(key, "True or False");
  }
  keep(key, Json(value));
  return value;
}

std::int64_t Params::integer(std::string_view key, std::int64_t low, std::int64_t high,
                             std::optional<std::int64_t> otherwise) {
  const Json* given = take(key);
  std::int64_t value = otherwise.value_or(low);
  const auto* integer = given ? given->get<std::int64_t>() : nullptr;
  if (integer && *integer >= low && *integer <= high)
    value = *integer;
  else if (given || !otherwise)
    reject(key, "an integer, " + bounds(Json(low), Json(high)));
  keep(key, Json(value));
  return value;
}

std::uint64_t Params::seed(std::string_view key) {
  const Json* given = take(key);
  if (const auto* large = given ? given->get<std::uint64_t>() : nullptr) {
    keep(key, Json(*large));
    return *large;
  }
  const auto* integer = given ? given->get<std::int64_t>() : nullptr;
  if (given && (!integer || *integer < 0)) reject(key, "an integer, 0 to 18446744073709551615");
  const std::int64_t value = integer ? *integer : 0;
  keep(key, Json(value));
  return static_cast<std::uint64_t>(value);
}

std::optional<std::int64_t> Params::integer_or_null(std::string_view key, std::int64_t low,
                                                    std::int64_t high) {
  const Json* given = take(key);
  if (!given || given->is_null()) {
    keep(key, Json());
    return std::nullopt;
  }
  return integer(key, low, high);
}

std::size_t Params::choice(std::string_view key, std::initializer_list<std::string_view> allowed,
                           bool required) {
  const Json* given = take(key);
  std::size_t index = 0;
  if (given || required) {
    const auto* name = given ? given->get<std::string>() : nullptr;
    const auto* found = name ? std::find(allowed.begin(), allowed.end(), *name) : allowed.end();
    if (found == allowed.end())
      reject(key, one_of(allowed));
    else
      index = static_cast<std::size_t>(found - allowed.begin());
  }
  keep(key, Json(std::string(allowed.begin()[index])));
  return index;
}

std::optional<std::size_t> Params::choice_or_null(std::string_view key,
                                                  std::initializer_list<std::string_view> allowed) {
  const Json* given = take(key);
  if (!given || given->is_null()) {
    keep(key, Json());
    return std::nullopt;
  }
  return choice(key, allowed, true);
}

double Params::number(std::string_view key, double low, double high, std::optional<double> otherwise) {
  const Json* given = take(key);
  double value = otherwise.value_or(low);
  if (given || !otherwise) {
    const std::optional<double> number = given ? as_number(*given) : std::nullopt;
    if (number && *number >= low && *number <= high)
      value = *number;
    else
      reject(key, "a number, " + bounds(Json(low), Json(high)));
  }
  keep(key, Json(value));
  return value;
}

std::vector<double> Params::numbers(std::string_view key, std::size_t count_min, std::size_t count_max,
                                    double low, double high, std::string_view what,
                                    std::optional<std::vector<double>> otherwise) {
  const Json* given = take(key);
  std::vector<double> values;
  if (!given && otherwise) {
    values = *otherwise;
  } else {
    const Json::Array single = given && !given->get<Json::Array>() ? Json::Array{*given} : Json::Array{};
    const Json::Array* list = given ? given->get<Json::Array>() : nullptr;
    if (!list) list = &single;
    bool good = given && list->size() >= count_min && list->size() <= count_max;
    for (std::size_t i = 0; good && i < list->size(); ++i) {
      const std::optional<double> number = as_number((*list)[i]);
      good = number && *number >= low && *number <= high;
      if (good) values.push_back(*number);
    }
    if (!good) reject(key, std::string(what) + ", each " + bounds(Json(low), Json(high)));
  }
  Json::Array kept;
  for (const double value : values) kept.emplace_back(value);
  keep(key, Json(std::move(kept)));
  values.resize(std::max(values.size(), count_min));
  return values;
}

std::optional<std::vector<double>> Params::numbers_or_null(std::string_view key, std::size_t count_min,
                                                           std::size_t count_max, double low, double high,
                                                           std::string_view what) {
  const Json* given = take(key);
  if (!given || given->is_null()) {
    keep(key, Json());
    return std::nullopt;
  }
  return numbers(key, count_min, count_max, low, high, what);
}

std::vector<std::int64_t> Params::integers(std::string_view key, std::size_t count_min, std::size_t count_max,
                                           std::int64_t low, std::int64_t high, std::string_view what,
                                           std::optional<std::vector<std::int64_t>> otherwise) {
  const Json* given = take(key);
  std::vector<std::int64_t> values;
  if (!given && otherwise) {
    values = *otherwise;
  } else {
    const Json::Array single = given && !given->get<Json::Array>() ? Json::Array{*given} : Json::Array{};
    const Json::Array* list = given ? given->get<Json::Array>() : nullptr;
    if (!list) list = &single;
    bool good = given && list->size() >= count_min && list->size() <= count_max;
    for (std::size_t i = 0; good && i < list->size(); ++i) {
      const auto* integer = (*list)[i].get<std::int64_t>();
      good = integer && *integer >= low && *integer <= high;
      if (good) values.push_back(*integer);
    }
    if (!good) reject(key, std::string(what) + ", each " + bounds(Json(low), Json(high)));
  }
  Json::Array kept;
  kept.reserve(values.size());
  for (const std::int64_t value : values) kept.emplace_back(value);
  keep(key, Json(std::move(kept)));
  values.resize(std::max(values.size(), count_min), low);
  return values;
}

std::optional<std::vector<std::int64_t>> Params::integers_or_null(std::string_view key, std::size_t count_min,
                                                                  std::size_t count_max, std::int64_t low,
                                                                  std::int64_t high, std::string_view what) {
  const Json* given = take(key);
  if (!given || given->is_null()) {
    keep(key, Json());
    return std::nullopt;
  }
  return integers(key, count_min, count_max, low, high, what);
}

std::array<double, 2> Params::range(std::string_view key, double low, double high,
                                    std::array<double, 2> otherwise) {
  constexpr std::string_view kWhat = "[low, high] with low <= high";
  const std::vector<double> ends =
      numbers(key, 2, 2, low, high, kWhat, std::vector<double>(otherwise.begin(), otherwise.end()));
  if (ok() && ends[0] > ends[1]) reject(key, kWhat);
  return {ends[0], ends[1]};
}

bool Params::word(std::string_view key, std::string_view word) {
  const Json* given = take(key);
  const auto* text = given ? given->get<std::string>() : nullptr;
  if (!text || *text != word) return false;
  keep(key, Json(*text));
  return true;
}

std::string Params::string(std::string_view key) {
  const Json* given = take(key);
  const auto* text = given ? given->get<std::string>() : nullptr;
  if (!text) reject(key, "a string");
  keep(key, Json(text ? *text : std::string()));
  return text ? *text : std::string();
}

std::vector<std::string> Params::strings(std::string_view key,
                                         std::optional<std::vector<std::string>> otherwise) {
  const Json* given = take(key);
  std::vector<std::string> values;
  if (!given && otherwise) {
    values = *otherwise;
  } else {
    const Json::Array* list = given ? given->get<Json::Array>() : nullptr;
    if (!list) reject(key, "a list of strings");
    for (std::size_t i = 0; list && i < list->size(); ++i) {
      const auto* text = (*list)[i].get<std::string>();
      if (!text) {
        reject(key, "a list of strings");
        break;
      }
      values.push_back(*text);
    }
  }
  Json::Array kept;
  kept.reserve(values.size());
  for (const std::string& value : values) kept.emplace_back(value);
  keep(key, Json(std::move(kept)));
  return values;
}

std::optional<std::vector<std::string>> Params::strings_or_null(std::string_view key) {
  const Json* given = take(key);
  if (!given || given->is_null()) {
    keep(key, Json());
    return std::nullopt;
  }
  std::vector<std::string> values = strings(key, std::nullopt);
  if (values.empty() || std::set<std::string>(values.begin(), values.end()).size() != values.size())
    reject(key, "None or a list of at least one name, none twice");
  return values;
}

const Json& Params::raw(std::string_view key) {
  static const Json kNull;
  const Json* given = take(key);
  keep(key, given ? *given : kNull);
  return given ? *given : kNull;
}

}  // namespace carya::transforms
