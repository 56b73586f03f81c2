// Any lines are an answer's headers: no crash, and what would be sent back or shown is printable and bounded.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "io/http/answer.h"
#include "io/http/store_url.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya::io;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Answer answer;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    answer.take(text.substr(at, end - at));
    at = end;
  }
  const RangeWanted range{.offset = 10, .bytes = 5, .object_bytes = 100, .pin = answer.pin()};
  const Verdict verdict = judge_range(answer, range);
  // A good range is the one that was asked for.
  if (verdict == Verdict::kGood)
    CHECK(answer.status == 206 && answer.range_first == 10u && answer.range_last == 14u);
  for (const char c : answer.pin() + answer_failure(answer, verdict, &range, text, "no"))
    CHECK(static_cast<unsigned char>(c) >= 0x20);
  CHECK(answer.pin().size() <= 256);
  static_cast<void>(http_date_seconds(answer.date));
  if (const auto url = parse_store_url(text, {})) {
    for (const char c : url->url()) CHECK(c > 0x20 && c < 0x7f);
    CHECK(url->target.starts_with('/'));
  }
  return 0;
}
