#include "remote/fleet/fleet.h"

#include <algorithm>
#include <charconv>

namespace carya::remote {
namespace {

constexpr std::size_t kAddressBytesMax = 300;

}  // namespace

bool is_worker_address(const std::string& text) {
  const auto printable = [](char c) { return c > ' ' && c < 0x7F && c != '"'; };
  if (text.size() > kAddressBytesMax || !std::ranges::all_of(text, printable)) return false;
  if (text.starts_with("unix:")) return text.size() > 6 && text[5] == '/';
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string host = text.substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (!bracketed && host.find_first_of(":[]/") != std::string::npos) return false;
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + colon + 1, end, port);
  return read.ec == std::errc() && read.ptr == end && port > 0;
}

}  // namespace carya::remote
