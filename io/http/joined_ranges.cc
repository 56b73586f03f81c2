#include "io/http/joined_ranges.h"

#include <algorithm>
#include <cstring>

namespace carya::io {

void JoinedRanges::begin(const ReadRequest& first) {
  CHECK(first.length > 0);
  parts_.reserve(kPartsMax);  // add() never fails then
  parts_.assign(1, first);
  at_ = first.offset;
  end_ = first.offset + first.length;
  whole_ = 0;
}

bool JoinedRanges::add(const ReadRequest& next, std::uint64_t bytes_max) {
  if (parts_.size() == kPartsMax || next.length == 0 || next.offset < end_ || next.offset - end_ > kGapMax)
    return false;
  const std::uint64_t end = next.offset + next.length;
  if (end - offset() > std::min(bytes_max, kBytesMax)) return false;
  parts_.push_back(next);
  end_ = end;
  return true;
}

std::size_t JoinedRanges::take(std::span<const std::byte> bytes) {
  CHECK(bytes.size() <= end_ - at_);
  while (!bytes.empty()) {
    const ReadRequest& part = parts_[whole_];
    if (at_ < part.offset) {  // a gap
      const std::size_t skipped = std::min<std::uint64_t>(bytes.size(), part.offset - at_);
      bytes = bytes.subspan(skipped);
      at_ += skipped;
      continue;
    }
    const std::uint64_t done = at_ - part.offset;
    const std::size_t taken = std::min<std::uint64_t>(bytes.size(), part.length - done);
    std::memcpy(part.dest + done, bytes.data(), taken);
    bytes = bytes.subspan(taken);
    at_ += taken;
    if (done + taken == part.length) ++whole_;
  }
  return whole_;
}

}  // namespace carya::io
