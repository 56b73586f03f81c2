#include "transforms/op/json.h"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

namespace carya::transforms {
namespace {

/// Where reading stopped: the last characters of a token that may be long.
std::string last_part(const std::string& token) {
  constexpr std::size_t kShown = 20;
  std::size_t start = token.size() > kShown ? token.size() - kShown : 0;
  while (start < token.size() && (static_cast<unsigned char>(token[start]) & 0xC0) == 0x80) ++start;
  return token.substr(start);
}

// Builds the value while the library reads the text; returning false ends the reading at once.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return put(Json()); }
  bool boolean(bool value) override { return put(Json(value)); }
  bool number_integer(number_integer_t value) override { return put(Json(std::int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) return put(Json(std::uint64_t{value}));
    return put(Json(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override { return put(Json(value)); }
  bool string(string_t& value) override { return put(Json(std::move(value))); }
  bool binary(binary_t&) override { return stop("binary values are not allowed"); }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return open(Json(Json::Object()));
  }
  bool key(string_t& name) override {
    Json::Object& object = *stack_.back()->get<Json::Object>();
    if (object.size() == kJsonKeysMax) return stop(fmt::format("an object has over {} keys", kJsonKeysMax));
    if (!keys_.back().insert(name).second) return stop("the key \"" + name + "\" is there twice");
    object.emplace_back(std::move(name), Json());
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return close();
  }
  bool start_array(std::size_t) override { return open(Json(Json::Array())); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    // The library names the byte after the one that it could not take, counted from 1.
    bad_at_ = position > 0 ? position - 1 : 0;
    return stop(token.empty() ? "where it ends" : "near " + Json(last_part(token)).excerpt());
  }

  const std::string& reason() const { return reason_; }
  /// The byte where the text is no JSON; none when a limit ended the reading.
  std::optional<std::size_t> bad_at() const { return bad_at_; }
  Json take() { return std::move(root_); }

 private:
  // The place for the next value: an array's new end, or the member whose key was just read.
  Json* place(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (auto* array = stack_.back()->get<Json::Array>()) return &array->emplace_back(std::move(value));
    Json& member = stack_.back()->get<Json::Object>()->back().second;
    member = std::move(value);
    return &member;
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (stack_.size() == kJsonDepthMax) return stop(fmt::format("nested over {} deep", kJsonDepthMax));
    stack_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }
  bool stop(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
    return false;
  }

  Json root_;
  std::vector<Json*> stack_;  // open containers; only the innermost grows, so the pointers stay valid
  std::vector<std::unordered_set<std::string>> keys_;
  std::string reason_;
  std::optional<std::size_t> bad_at_;
};

void append_number(std::string& out, double value) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  const std::string_view text(digits, static_cast<std::size_t>(end - digits));
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

/// As people count: both from 1.
std::string line_and_column(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const std::size_t line_start = before.rfind('\n') + 1;  // 0 in the first line
  return fmt::format("line {}, column {}", std::ranges::count(before, '\n') + 1,
                     before.size() - line_start + 1);
}

void append_shown_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  const char quote = text.contains('\'') && !text.contains('"') ? '"' : '\'';
  out += quote;
  for (const char c : text) {
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n' || c == '\t' || c == '\r') {
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\x";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out += c;
    }
  }
  out += quote;
}

void append_shown(std::string& out, const Json& value) {
  if (value.is_null()) {
    out += "None";
  } else if (const bool* truth = value.get<bool>()) {
    out += *truth ? "True" : "False";
  } else if (const auto* string = value.get<std::string>()) {
    append_shown_string(out, *string);
  } else if (const auto* array = value.get<Json::Array>()) {
    out += '[';
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (i > 0) out += ", ";
      append_shown(out, (*array)[i]);
    }
    out += ']';
  } else if (const auto* object = value.get<Json::Object>()) {
    out += '{';
    for (std::size_t i = 0; i < object->size(); ++i) {
      if (i > 0) out += ", ";
      append_shown_string(out, (*object)[i].first);
      out += ": ";
      append_shown(out, (*object)[i].second);
    }
    out += '}';
  } else {
    value.append_text(out);
  }
}

}  // namespace

Result<Json> parse_json(std::string_view text) {
  if (text.size() > kJsonBytesMax)
    return fail(Code::kInvalidArgument,
                fmt::format("the document has {} B; give at most {} B", text.size(), kJsonBytesMax));
  Builder builder;
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return builder.take();
  if (!builder.bad_at()) return fail(Code::kInvalidArgument, builder.reason());
  return fail(Code::kInvalidArgument,
              "no JSON at " + line_and_column(text, *builder.bad_at()) + ", " + builder.reason());
}

const Json* Json::find(std::string_view key) const {
  const Object* object = get<Object>();
  if (!object) return nullptr;
  for (const Member& member : *object)
    if (member.first == key) return &member.second;
  return nullptr;
}

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void Json::append_text(std::string& out) const {
  if (const bool* truth = get<bool>()) {
    out += *truth ? "true" : "false";
  } else if (const auto* integer = get<std::int64_t>()) {
    out += std::to_string(*integer);
  } else if (const auto* large = get<std::uint64_t>()) {
    out += std::to_string(*large);
  } else if (const auto* number = get<double>()) {
    append_number(out, *number);
  } else if (const auto* string = get<std::string>()) {
    append_json_string(out, *string);
  } else if (const auto* array = get<Array>()) {
    out += '[';
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (i > 0) out += ',';
      (*array)[i].append_text(out);
    }
    out += ']';
  } else if (const auto* object = get<Object>()) {
    out += '{';
    for (std::size_t i = 0; i < object->size(); ++i) {
      if (i > 0) out += ',';
      append_json_string(out, (*object)[i].first);
      out += ':';
      (*object)[i].second.append_text(out);
    }
    out += '}';
  } else {
    out += "null";
  }
}

std::string Json::text() const {
  std::string out;
  append_text(out);
  return out;
}

std::string Json::excerpt() const {
  constexpr std::size_t kShown = 60;
  std::string out;
  append_shown(out, *this);
  if (out.size() <= kShown) return out;
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) --end;  // not inside a character
  out.resize(end);
  return out + "...";
}

}  // namespace carya::transforms
