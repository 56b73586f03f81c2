#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "transforms/op/json.h"

namespace carya::transforms {

/// Reads the parameters of one JSON object: every key known, every value within its bounds, a missing key its
/// default.
///
/// The first fault is kept and the reads after it give harmless values, so that an op reads all its
/// parameters in a row and asks once: `finish()`. What was read, in the order it was read, is the canonical
/// form of the object. Errors: kInvalidArgument "subject: parameter: got X; give what". Threads: owner only.
class Params {
 public:
  /// `subject` names the object in errors ("random_crop"). `kind_key` is the key that says what the object is
  /// ("op").
  Params(std::string subject, const Json& object, std::string_view kind_key);

  bool boolean(std::string_view key, bool otherwise);
  /// No default means required.
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high,
                       std::optional<std::int64_t> otherwise = std::nullopt);
  /// An integer of 0 to 2^64 - 1; 0 when missing.
  std::uint64_t seed(std::string_view key);
  /// None or an integer.
  std::optional<std::int64_t> integer_or_null(std::string_view key, std::int64_t low, std::int64_t high);
  /// One of `allowed`; the index. The first is the default unless `required`.
  std::size_t choice(std::string_view key, std::initializer_list<std::string_view> allowed,
                     bool required = false);
  /// null (the default; nullopt) or one of `allowed`.
  std::optional<std::size_t> choice_or_null(std::string_view key,
                                            std::initializer_list<std::string_view> allowed);
  double number(std::string_view key, double low, double high, std::optional<double> otherwise);
  /// A list, or one number as a list of one. `what` describes it in errors.
  std::vector<double> numbers(std::string_view key, std::size_t count_min, std::size_t count_max, double low,
                              double high, std::string_view what,
                              std::optional<std::vector<double>> otherwise = std::nullopt);
  /// null (the default; nullopt) or as numbers() reads.
  std::optional<std::vector<double>> numbers_or_null(std::string_view key, std::size_t count_min,
                                                     std::size_t count_max, double low, double high,
                                                     std::string_view what);
  std::vector<std::int64_t> integers(std::string_view key, std::size_t count_min, std::size_t count_max,
                                     std::int64_t low, std::int64_t high, std::string_view what,
                                     std::optional<std::vector<std::int64_t>> otherwise = std::nullopt);
  /// null (the default; nullopt) or a list as integers() reads.
  std::optional<std::vector<std::int64_t>> integers_or_null(std::string_view key, std::size_t count_min,
                                                            std::size_t count_max, std::int64_t low,
                                                            std::int64_t high, std::string_view what);
  /// Two numbers, [low, high] with low <= high.
  std::array<double, 2> range(std::string_view key, double low, double high, std::array<double, 2> otherwise);
  /// Whether the value is this word, which then is read; else the caller reads it as something else.
  bool word(std::string_view key, std::string_view word);
  std::string string(std::string_view key);
  std::vector<std::string> strings(std::string_view key, std::optional<std::vector<std::string>> otherwise);
  /// null (the default; nullopt) or a list of at least one string, none twice.
  std::optional<std::vector<std::string>> strings_or_null(std::string_view key);
  /// The raw value, kept as it is; null when missing. The caller checks it.
  const Json& raw(std::string_view key);

  /// Whether the key is missing or null.
  bool raw_is_null(std::string_view key);

  const std::string& subject() const { return subject_; }

  /// Record a fault of `key` that the caller found: relations between parameters.
  void reject(std::string_view key, std::string_view allowed);
  bool ok() const { return !fault_; }
  /// The first fault so far, or success.
  Status fault() const;
  /// The first fault, an unknown key, or success.
  Status finish();
  /// The canonical object: the kind first, then what was read. Call after finish().
  Json::Object take_canonical() { return std::move(canonical_); }
  /// Replace the canonical value of a key already read.
  void set_canonical(std::string_view key, Json value);

 private:
  const Json* take(std::string_view key);
  void keep(std::string_view key, Json value) { canonical_.emplace_back(std::string(key), std::move(value)); }

  std::string subject_;
  const Json& object_;
  Json::Object canonical_;
  std::optional<Error> fault_;
};

}  // namespace carya::transforms
