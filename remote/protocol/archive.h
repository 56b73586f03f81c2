#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

// How structures become CBOR and back: one list of fields per structure, for both directions. For source
// files that define documents; their fields() stand in this namespace. Json is nlohmann::json, which the
// source file includes: this header, that other folders see, shows them no library.
namespace carya::archive {

constexpr int kEnumMax = 15;  // no enumeration that is written so has more values

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

/// Followed by the body of a function that gives each field its name: a("epoch", d.epoch). A name is never
/// given another meaning.
#define CARYA_FIELDS(Type)                                    \
  template <typename Archive, typename Given>                 \
    requires std::is_same_v<std::remove_const_t<Given>, Type> \
  void fields([[maybe_unused]] Archive& a, [[maybe_unused]] Given& d)

CARYA_FIELDS(Error) {
  a("code", d.code), a("message", d.message), a("errno", d.sys_errno);
}
CARYA_FIELDS(Hash128) {
  a("high", d.high), a("low", d.low);
}

template <typename Json>
class Writer {
 public:
  template <typename T>
  void operator()(const char* name, const T& value) {
    out_[name] = value_of(value);
  }
  /// Bytes that mean something to others only.
  void blob(const char* name, const std::string& bytes) {
    out_[name] = Json::binary(std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
  }
  Json take() { return std::move(out_); }

  template <typename T>
  static Json value_of(const T& value) {
    if constexpr (IsOptional<T>::value) {
      return value ? value_of(*value) : Json(nullptr);
    } else if constexpr (IsVector<T>::value) {
      Json list = Json::array();
      for (const auto& item : value) list.push_back(value_of(item));
      return list;
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<int>(value);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else {
      Writer inner;
      fields(inner, value);
      return inner.take();
    }
  }

 private:
  Json out_ = Json::object();
};

template <typename Json>
class Reader {
 public:
  explicit Reader(const Json& in) : in_(in) {}

  template <typename T>
  void operator()(const char* name, T& value) {
    if (!wrong_.empty()) return;
    const auto found = in_.find(name);
    if (found != in_.end() && !read(*found, value, wrong_))
      wrong_ = wrong_.empty() ? name : std::string(name) + "." + wrong_;
  }
  void blob(const char* name, std::string& bytes) {
    const auto found = in_.find(name);
    if (!wrong_.empty() || found == in_.end()) return;
    if (!found->is_binary()) {
      wrong_ = name;
      return;
    }
    bytes.assign(found->get_binary().begin(), found->get_binary().end());
  }
  /// Name of the first field that is not what it should be, or "".
  const std::string& wrong() const { return wrong_; }

  template <typename T>
  static bool read(const Json& in, T& value, std::string& wrong) {
    if constexpr (IsOptional<T>::value) {
      if (in.is_null()) return value.reset(), true;
      return read(in, value.emplace(), wrong);
    } else if constexpr (IsVector<T>::value) {
      if (!in.is_array()) return false;
      for (const Json& item : in)
        if (!read(item, value.emplace_back(), wrong)) return false;
      return true;
    } else if constexpr (std::is_same_v<T, bool>) {
      return in.is_boolean() && (value = in.template get<bool>(), true);
    } else if constexpr (std::is_enum_v<T>) {
      constexpr int kMax = std::is_same_v<T, Code> ? static_cast<int>(Code::kForked) : kEnumMax;
      int number = 0;
      if (!read(in, number, wrong) || number < 0 || number > kMax) return false;
      value = static_cast<T>(number);
      return true;
    } else if constexpr (std::is_integral_v<T>) {
      if (in.is_number_unsigned()) {
        const auto number = in.template get<std::uint64_t>();
        return std::in_range<T>(number) && (value = static_cast<T>(number), true);
      }
      if (!in.is_number_integer()) return false;
      const auto number = in.template get<std::int64_t>();
      return std::in_range<T>(number) && (value = static_cast<T>(number), true);
    } else if constexpr (std::is_floating_point_v<T>) {
      return in.is_number() && (value = in.template get<T>(), true);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return in.is_string() && (value = in.template get<std::string>(), true);
    } else {
      if (!in.is_object()) return false;
      Reader inner(in);
      fields(inner, value);
      wrong = inner.wrong();
      return wrong.empty();
    }
  }

 private:
  const Json& in_;
  std::string wrong_;
};

/// Calls `visit(field, number)` for every number of a document, with the field's place in it:
/// "options.threads", "arrays[].rows". Flags, enumerations and texts are none.
template <typename Visit>
class NumberWalk {
 public:
  NumberWalk(std::string prefix, Visit& visit) : prefix_(std::move(prefix)), visit_(visit) {}

  template <typename T>
  void operator()(const char* name, const T& value) {
    walk(prefix_.empty() ? name : prefix_ + "." + name, value);
  }
  void blob(const char* /*name*/, const std::string& /*bytes*/) {}

 private:
  template <typename T>
  void walk(const std::string& place, const T& value) {
    if constexpr (IsOptional<T>::value) {
      if (value) walk(place, *value);
    } else if constexpr (IsVector<T>::value) {
      for (const auto& item : value) walk(place + "[]", item);
    } else if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      visit_(place, value);
    } else if constexpr (!std::is_enum_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, std::string>) {
      NumberWalk inner(place, visit_);
      fields(inner, value);
    }
  }

  std::string prefix_;
  Visit& visit_;
};

/// The first error of check(field, number) over all numbers of a document, as doubles: what is compared with
/// a range need not be exact behind 2^53.
template <typename Document, typename Check>
Status check_numbers(const char* name, const Document& document, Check check) {
  Status status;
  auto visit = [&](const std::string& place, auto number) {
    if (status) status = check(place, static_cast<double>(number));
  };
  NumberWalk<decltype(visit)> walk(name, visit);
  fields(walk, document);
  return status;
}

/// Gives every list one item and every optional field a value, so that a walk comes by all fields.
class Filler {
 public:
  template <typename T>
  void operator()(const char* /*name*/, T& value) {
    fill(value);
  }
  void blob(const char* /*name*/, std::string& /*bytes*/) {}

 private:
  template <typename T>
  void fill(T& value) {
    if constexpr (IsOptional<T>::value) {
      fill(value.emplace());
    } else if constexpr (IsVector<T>::value) {
      fill(value.emplace_back());
    } else if constexpr (!std::is_arithmetic_v<T> && !std::is_enum_v<T> && !std::is_same_v<T, std::string>) {
      fields(*this, value);
    }
  }
};

/// The places of all numbers that a document can have, each after "<name>.".
template <typename Document>
void add_number_fields(const char* name, std::vector<std::string>& places) {
  Document document;
  Filler filler;
  fields(filler, document);
  auto note = [&](const std::string& place, auto /*number*/) { places.push_back(place); };
  NumberWalk<decltype(note)> walk(name, note);
  fields(walk, std::as_const(document));
}

template <typename Json, typename Document>
std::string to_cbor(const Document& document) {
  std::string body;
  Json::to_cbor(Writer<Json>::value_of(document), body);
  return body;
}

/// Every known field must have its type and range, one that is missing keeps its default, one that is unknown
/// is ignored. Nothing, with the name of the field in `wrong`, where that is not so. The bytes have been
/// through check_cbor().
template <typename Json, typename Document>
std::optional<Document> from_cbor(const std::string& body, std::string& wrong) {
  const Json in = Json::from_cbor(body, true, false);
  Document document;
  if (in.is_discarded() || !Reader<Json>::read(in, document, wrong)) return std::nullopt;
  return document;
}

}  // namespace carya::archive
