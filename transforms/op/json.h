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

/// One value of a JSON document, with object keys in the order they were written. A plain value.
///
/// Own type, because the library's objects keep the last of two equal keys and put no bound on depth or on
/// keys, and because its header must not be seen outside json.cc.
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  ///< null
  // NOLINTBEGIN(google-explicit-constructor): a document is written as its values, as in Json{{"op", name}}.
  Json(bool value) : value_(value) {}
  Json(std::int64_t value) : value_(value) {}
  Json(std::uint64_t value) : value_(value) {}  ///< above int64; below it an integer is an std::int64_t
  Json(double value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  // NOLINTEND(google-explicit-constructor)

  /// The value as T (bool, std::int64_t, std::uint64_t above its range, double, std::string, Array, Object),
  /// or nullptr.
  template <typename T>
  const T* get() const {
    return std::get_if<T>(&value_);
  }
  template <typename T>
  T* get() {
    return std::get_if<T>(&value_);
  }
  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  /// The member of an object, or nullptr (also when this is no object).
  const Json* find(std::string_view key) const;

  /// Canonical text: no white space, numbers in shortest round-trip form, a double always with '.' or 'e'.
  std::string text() const;
  void append_text(std::string& out) const;
  /// The value as Python's repr() shows it (None, True, 'text'), cut to about 60 characters: for error
  /// messages, since it is Python that users write.
  std::string excerpt() const;

 private:
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

inline constexpr std::size_t kJsonBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kJsonDepthMax = 16;
inline constexpr std::size_t kJsonKeysMax = 1024;

/// Read one document of at most kJsonBytesMax bytes, nested at most kJsonDepthMax deep, with at most
/// kJsonKeysMax keys per object, none twice, strings valid UTF-8.
///
/// Errors: kInvalidArgument with the reason, and line and column where it is no JSON. Cost: linear in the
/// text. Threads: pure.
Result<Json> parse_json(std::string_view text);

/// `text` as a JSON string with its quotes, UTF-8 kept, control characters escaped.
void append_json_string(std::string& out, std::string_view text);

}  // namespace carya::transforms
