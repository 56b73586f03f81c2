#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace carya::io {

/// What the headers of an answer say. They come from a stranger: numbers are checked, texts are bounded.
struct Answer {
  int status = 0;                       ///< 0: there was no status line
  std::optional<std::uint64_t> length;  ///< Content-Length
  bool has_range = false;               ///< there was a Content-Range, right or wrong
  std::optional<std::uint64_t> range_first,
      range_last;  ///< "bytes first-last/total"; nothing where it is none
  std::optional<std::uint64_t> range_total;
  std::string generation;     ///< "generation N" of Google's x-goog-generation; "": none
  std::string etag;           ///< as written, with quotes; "": none
  std::string last_modified;  ///< as written; "": none
  bool encoded = false;       ///< Content-Encoding is another than identity
  std::uint32_t retry_after_s = 0;
  std::string date;    ///< of the store's clock
  std::string region;  ///< x-amz-bucket-region

  /// Take a header line. A status line begins a new answer, as after a redirect.
  void take(std::string_view line);
  /// What pins the object's version: its generation, else an ETag, else Last-Modified. "": the store says nothing.
  const std::string& pin() const {
    if (!generation.empty()) return generation;
    return etag.empty() ? last_modified : etag;
  }
};

/// One range of an object, and what is known of the object.
struct RangeWanted {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;         ///< 1 or more
  std::uint64_t object_bytes = 0;  ///< of the whole object when it was listed
  std::string_view pin;            ///< Answer::pin() of when it was listed
};

/// How an answer ends a request.
enum class Verdict : std::uint8_t {
  kGood,
  kAgain,    ///< the store is busy or away: try again
  kRefused,  ///< 401, 403: tried again for a moment, since credentials may be renewed
  kChanged,  ///< the object is another or gone: no further try
  kWrong,    ///< the store does not do what was asked, such as ranges: no further try
};

/// Whether the bytes that follow an answer are those of the range: status 206, the range, the length and the pin are
/// exactly what was asked for. (200 is right for a range that is the whole object.)
Verdict judge_range(const Answer& answer, const RangeWanted& wanted);
/// The verdict on a status that is no success.
Verdict judge_status(int status);

/// The header ("name: value") by which a version is asked for; "": none can be matched, as of weak ETags.
std::string pin_condition(std::string_view pin);

/// Why it is none, in words, with what to do. `body`: the beginning of the answer's body, of which the store's error code
/// is taken. `advice`: what to do where the store refuses (StoreAccess::advice()).
std::string answer_failure(const Answer& answer, Verdict verdict, const RangeWanted* wanted,
                           std::string_view body, std::string_view advice);

/// Seconds since 1970 of an HTTP date ("Wed, 21 Oct 2015 07:28:00 GMT"); nothing where it is none.
std::optional<std::int64_t> http_date_seconds(std::string_view date);

}  // namespace carya::io
