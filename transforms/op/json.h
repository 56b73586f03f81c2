#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace carya::transforms {

/// One value of a JSON document. Object keys keep the order in which they were written. A plain value.
///
/// It is a type of its own for two reasons. The library's objects keep the last of two equal keys, and bound neither
/// depth nor keys. And the library's header must not be seen outside of json.cc.
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  ///< null
  // NOLINTBEGIN(google-explicit-constructor): a document is written as its values, as in Json{{"op", name}}.
  Json(bool value) : value_(value) {}
  Json(std::int64_t value) : value_(value) {}
  /// For numbers above int64. Smaller integers are std::int64_t.
  Json(std::uint64_t value) : value_(value) {}
  Json(double value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  // NOLINTEND(google-explicit-constructor)

  /// The value as T, or nullptr if it has another type. T is bool, std::int64_t, std::uint64_t (only above int64),
  /// double, std::string, Array or Object.
  template <typename T>
  const T* get() const {
    return std::get_if<T>(&value_);
  }
  template <typename T>
  T* get() {
    return std::get_if<T>(&value_);
  }
  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  /// The member of an object with this key. Returns nullptr if there is none, or if this is no object.
  const Json* find(std::string_view key) const;

  /// The canonical text: without white space, numbers in the shortest form that reads back the same, a double always
  /// with '.' or 'e'.
  std::string text() const;
  void append_text(std::string& out) const;
  /// The value as Python's repr() shows it (None, True, 'text'), cut to about 60 characters. Error messages use it,
  /// since users write Python.
  std::string excerpt() const;

 private:
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

inline constexpr std::size_t kJsonBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kJsonDepthMax = 16;
inline constexpr std::size_t kJsonKeysMax = 1024;

/// Read one document. It has at most kJsonBytesMax bytes, a depth of at most kJsonDepthMax, at most kJsonKeysMax keys
/// per object and no key twice. Its strings are valid UTF-8.
///
/// Errors: kInvalidArgument with the reason; for a syntax error, with line and column. Cost: linear in the text.
/// Threads: pure.
Result<Json> parse_json(std::string_view text);

/// Append `text` as a JSON string with its quotes. UTF-8 is kept, control characters are escaped.
void append_json_string(std::string& out, std::string_view text);

}  // namespace carya::transforms
