#include "loader/read/read_buffer.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <new>

#include "base/checked.h"
#include "base/clock.h"
#include "shm/memory_limit.h"

namespace carya::loader {
namespace {

constexpr std::uint64_t kPage = 4096;
/// Read-ahead leaves this much of the available memory. It is less than slots leave, so that streams whose slots were
/// allocated can also read.
constexpr std::uint64_t kSpareBytes = shm::kSpareBytes / 2;
constexpr std::int64_t kAskNs = 100'000'000;  // asking reads a few kernel files, which takes some 70 us

}  // namespace

std::shared_ptr<const void> ReadBuffer::lend() const {
  if (!memory) return nullptr;
  memory->loans.fetch_add(1, std::memory_order_relaxed);
  // The pointer's constructor calls the deleter also where it throws.
  return {memory->start.get(),
          [memory = memory](const std::byte*) { memory->loans.fetch_sub(1, std::memory_order_release); }};
}

ReadBufferPool::ReadBufferPool(std::uint64_t kept_bytes_max, std::function<std::uint64_t()> available)
    : kept_bytes_max_(kept_bytes_max),
      available_(available ? std::move(available) : [] { return shm::available_memory_bytes(); }) {}

std::uint64_t ReadBufferPool::rounded(std::uint64_t bytes) {
  if (bytes <= 4 * kPage) return 4 * kPage;
  const std::uint64_t quarter = std::bit_floor(bytes) / 4;
  return align_up(bytes, quarter);
}

// The most recently given buffer that fits, since its lines are the likeliest to be in the cache.
std::vector<ReadBuffer>::iterator ReadBufferPool::find_kept(std::uint64_t rounded_bytes) {
  const auto last = std::find_if(kept_.rbegin(), kept_.rend(),
                                 [&](const ReadBuffer& buffer) { return buffer.bytes == rounded_bytes; });
  return last == kept_.rend() ? kept_.end() : std::prev(last.base());
}

bool ReadBufferPool::has_room(std::uint64_t bytes) {
  const std::uint64_t wanted = rounded(bytes);
  if (find_kept(wanted) != kept_.end()) return true;
  const std::int64_t now_ns = monotonic_ns();
  if (asked_ns_ == 0 || now_ns - asked_ns_ > kAskNs) {
    const std::uint64_t available = available_();
    room_ = available - std::min(available, kSpareBytes);
    asked_ns_ = now_ns;
  }
  return wanted <= room_;
}

ReadBuffer ReadBufferPool::take(std::uint64_t bytes) {
  const std::uint64_t wanted = rounded(bytes);
  if (const auto kept = find_kept(wanted); kept != kept_.end()) {
    ReadBuffer buffer = std::move(*kept);
    kept_.erase(kept);
    kept_bytes_ -= buffer.bytes;
    return buffer;
  }
  room_ -= std::min(room_, wanted);
  return make(bytes);
}

ReadBuffer ReadBufferPool::make(std::uint64_t bytes) {
  const std::uint64_t wanted = rounded(bytes);
  auto memory = std::make_shared<ReadMemory>();
  memory->start.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, wanted)));
  if (!memory->start) return {};
  return {std::move(memory), wanted};
}

void ReadBufferPool::give(ReadBuffer buffer) {
  if (!buffer.memory || buffer.memory->loans.load(std::memory_order_acquire) > 0) return;
  try {
    kept_.reserve(kept_.size() + 1);
  } catch (const std::bad_alloc&) {
    return;  // the buffer is freed then
  }
  kept_bytes_ += buffer.bytes;
  kept_.push_back(std::move(buffer));
  while (kept_bytes_ > kept_bytes_max_) {
    kept_bytes_ -= kept_.front().bytes;
    kept_.erase(kept_.begin());
  }
}

}  // namespace carya::loader
