#include "io/http/answer.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <ctime>

#include "base/escape.h"
#include "io/files/record_file.h"

namespace carya::io {
namespace {

constexpr std::size_t kTextMax = 256;  // of an ETag or date: longer ones are none
constexpr std::uint32_t kRetryAfterMax = 60;
constexpr std::string_view kGeneration = "generation ";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
}

/// A decimal number and nothing else.
std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Text that may be sent back in a header; else "".
std::string printable(std::string_view text) {
  const bool fits = text.size() <= kTextMax &&
                    std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
  return fits ? std::string(text) : std::string();
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// "<Code>SlowDown</Code>" of S3's errors; "": none.
std::string error_code(std::string_view body) {
  constexpr std::string_view kOpen = "<Code>";
  const std::size_t at = body.find(kOpen);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = body.substr(at + kOpen.size());
  const std::string_view code = rest.substr(0, rest.find('<'));
  const bool plain =
      code.size() <= 64 && std::ranges::all_of(code, [](unsigned char c) { return std::isalnum(c) != 0; });
  return plain ? std::string(code) : "";
}

}  // namespace

void Answer::take(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    *this = {};
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return;
    const auto code = number(line.substr(blank + 1, 3));
    if (code && *code >= 100 && *code <= 999) status = static_cast<int>(*code);
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string name = lower(trimmed(line.substr(0, colon)));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "content-length") {
    length = number(value);
  } else if (name == "content-range") {
    has_range = true;
    range_first = range_last = range_total = std::nullopt;
    constexpr std::string_view kUnit = "bytes ";
    if (!value.starts_with(kUnit)) return;
    const std::string_view numbers = trimmed(value.substr(kUnit.size()));
    const std::size_t dash = numbers.find('-'), slash = numbers.find('/');
    if (dash == std::string_view::npos || slash == std::string_view::npos || slash < dash) return;
    range_first = number(numbers.substr(0, dash));
    range_last = number(numbers.substr(dash + 1, slash - dash - 1));
    range_total = number(numbers.substr(slash + 1));
  } else if (name == "x-goog-generation") {
    generation = number(value) ? std::string(kGeneration) + std::string(value) : "";
  } else if (name == "etag") {
    etag = printable(value);
  } else if (name == "last-modified") {
    last_modified = printable(value);
  } else if (name == "content-encoding") {
    encoded = !value.empty() && lower(value) != "identity";
  } else if (name == "retry-after") {
    retry_after_s =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(number(value).value_or(0), kRetryAfterMax));
  } else if (name == "date") {
    date = printable(value);
  } else if (name == "x-amz-bucket-region") {
    region = printable(value);
  }
}

Verdict judge_status(int status) {
  if (status == 404 || status == 410 || status == 412) return Verdict::kChanged;
  if (status == 401 || status == 403) return Verdict::kRefused;
  if (status == 408 || status == 429 || (status >= 500 && status != 501 && status != 505))
    return Verdict::kAgain;
  return Verdict::kWrong;
}

Verdict judge_range(const Answer& answer, const RangeWanted& wanted) {
  if (answer.status == 416) return Verdict::kChanged;  // it is shorter now
  const bool whole = wanted.offset == 0 && wanted.bytes == wanted.object_bytes;
  if (answer.status != 206 && !(answer.status == 200 && whole))
    return answer.status == 0 ? Verdict::kAgain : judge_status(answer.status);
  if (answer.pin() != wanted.pin) return Verdict::kChanged;
  if (answer.encoded) return Verdict::kWrong;
  if (answer.status == 206) {
    if (answer.range_total && *answer.range_total != wanted.object_bytes) return Verdict::kChanged;
    if (!answer.range_total || answer.range_first != wanted.offset ||
        answer.range_last != wanted.offset + wanted.bytes - 1)
      return Verdict::kAgain;  // another range: some proxies mix answers up, which may not last
  }
  if (answer.length && *answer.length != wanted.bytes)
    return answer.status == 200 ? Verdict::kChanged : Verdict::kAgain;
  return Verdict::kGood;
}

std::string pin_condition(std::string_view pin) {
  if (pin.starts_with(kGeneration))
    return "x-goog-if-generation-match: " + std::string(pin.substr(kGeneration.size()));
  if (pin.starts_with('"')) return "If-Match: " + std::string(pin);
  if (pin.empty() || pin.starts_with("W/")) return "";
  return "If-Unmodified-Since: " + std::string(pin);
}

std::string answer_failure(const Answer& answer, Verdict verdict, const RangeWanted* wanted,
                           std::string_view body, std::string_view advice) {
  const std::string code = error_code(body);
  const std::string said =
      fmt::format("the store answered {}{}", answer.status, code.empty() ? "" : " (" + code + ")");
  switch (verdict) {
    case Verdict::kGood:
      break;
    case Verdict::kAgain:
      if (answer.status == 206)
        return "the store answered with another range than the one asked for; look at proxies on the way, or "
               "give a "
               "longer io_timeout=";
      return said + "; it is busy or out of order: give a longer io_timeout=, or fewer readers";
    case Verdict::kRefused:
      if (!answer.region.empty() && answer.status == 403 && code == "AuthorizationHeaderMalformed")
        return said + "; set AWS_REGION=" + answer.region;
      return fmt::format("{}; {}", said, advice);
    case Verdict::kChanged: {
      if (wanted == nullptr) return said + "; give the URL of an object that exists";
      std::string how = said;
      if (answer.status == 200 || answer.status == 206)
        how = fmt::format("its version was {} and is {}", escaped(wanted->pin),
                          answer.pin().empty() ? "unknown" : escaped(answer.pin()));
      return "the object changed since it was listed (" + how + "); " + kListAnew;
    }
    case Verdict::kWrong:
      if (answer.status >= 300 && answer.status < 400 && !answer.region.empty())
        return said + "; the bucket lies in another region: set AWS_REGION=" + answer.region;
      if (answer.status == 200)
        return "the store answered with the whole object in place of a range; copy the data, or put it "
               "behind a server "
               "that reads ranges";
      if (answer.encoded)
        return "the store packs what it sends, so ranges are none of the object; switch its compression off";
      return said + "; give the URL of an object that this store lets be read by ranges";
  }
  return said;
}

std::optional<std::int64_t> http_date_seconds(std::string_view date) {
  std::tm utc{};
  const std::string text(date);
  const char* const end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return static_cast<std::int64_t>(::timegm(&utc));
}

}  // namespace carya::io
