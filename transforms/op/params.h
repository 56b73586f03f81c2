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

/// Reads the parameters of one JSON object. It checks that every key is known and every value is within its bounds, and
/// gives a missing key its default.
///
/// After the first fault, which is kept, all reads return harmless values. So an op reads all its parameters in a row
/// and checks once, with `finish()`. The values in the order of the reads are the canonical form of the object. Errors:
/// kInvalidArgument "subject: parameter: got X; give what". Threads: owner only.
class Params {
 public:
  /// `subject` names the object in errors ("random_crop"). `kind_key` is the key that states the kind of object ("op").
  Params(std::string subject, const Json& object, std::string_view kind_key);

  bool boolean(std::string_view key, bool otherwise);
  /// An integer in [low, high]. The key is required if there is no default (`otherwise`).
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high,
                       std::optional<std::int64_t> otherwise = std::nullopt);
  /// An integer in 0..2^64 - 1; 0 if the key is missing.
  std::uint64_t seed(std::string_view key);
  /// null (the default; nullopt) or an integer in [low, high].
  std::optional<std::int64_t> integer_or_null(std::string_view key, std::int64_t low, std::int64_t high);
  /// The index of the value in `allowed`. The first one is the default unless `required`.
  std::size_t choice(std::string_view key, std::initializer_list<std::string_view> allowed,
                     bool required = false);
  /// null (the default; nullopt) or the index of the value in `allowed`.
  std::optional<std::size_t> choice_or_null(std::string_view key,
                                            std::initializer_list<std::string_view> allowed);
  double number(std::string_view key, double low, double high, std::optional<double> otherwise);
  /// A list of numbers, or one number as a list of one. `what` describes it in errors.
  std::vector<double> numbers(std::string_view key, std::size_t count_min, std::size_t count_max, double low,
                              double high, std::string_view what,
                              std::optional<std::vector<double>> otherwise = std::nullopt);
  /// null (the default; nullopt) or a list as numbers() reads it.
  std::optional<std::vector<double>> numbers_or_null(std::string_view key, std::size_t count_min,
                                                     std::size_t count_max, double low, double high,
                                                     std::string_view what);
  std::vector<std::int64_t> integers(std::string_view key, std::size_t count_min, std::size_t count_max,
                                     std::int64_t low, std::int64_t high, std::string_view what,
                                     std::optional<std::vector<std::int64_t>> otherwise = std::nullopt);
  /// null (the default; nullopt) or a list as integers() reads it.
  std::optional<std::vector<std::int64_t>> integers_or_null(std::string_view key, std::size_t count_min,
                                                            std::size_t count_max, std::int64_t low,
                                                            std::int64_t high, std::string_view what);
  /// Two numbers, [low, high] with low <= high.
  std::array<double, 2> range(std::string_view key, double low, double high, std::array<double, 2> otherwise);
  /// Whether the value is this word. If so, it has been read; if not, the caller reads it as another type.
  bool word(std::string_view key, std::string_view word);
  std::string string(std::string_view key);
  std::vector<std::string> strings(std::string_view key, std::optional<std::vector<std::string>> otherwise);
  /// null (the default; nullopt) or a list of at least one string, without duplicates.
  std::optional<std::vector<std::string>> strings_or_null(std::string_view key);
  /// The raw value; null if the key is missing. The caller checks it.
  const Json& raw(std::string_view key);

  /// Whether the key is missing or null.
  bool raw_is_null(std::string_view key);
  /// Whether the key is there.
  bool has(std::string_view key) const { return object_.find(key) != nullptr; }

  const std::string& subject() const { return subject_; }

  /// Record a fault of `key` that the caller found, such as in the relation of two parameters.
  void reject(std::string_view key, std::string_view allowed);
  bool ok() const { return !fault_; }
  /// The first fault so far, or success.
  Status fault() const;
  /// The first fault, else an error for an unknown key, else success.
  Status finish();
  /// The canonical object: the kind first, then all values in the order of the reads. Call it after finish().
  Json::Object take_canonical() { return std::move(canonical_); }
  /// Replace the canonical value of a key that was read.
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
