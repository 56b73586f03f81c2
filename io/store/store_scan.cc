#include "io/store/store_scan.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "io/store/store_file.h"

namespace carya::io {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{1} << 20;
constexpr std::uint64_t kWasteFloor = std::uint64_t{64} << 20;

/// A piece of the file in memory that moves forward.
class Window {
 public:
  Window(int fd, std::uint64_t file_bytes) : fd_(fd), file_bytes_(file_bytes) {}

  /// The `bytes` bytes at `offset`, which the caller knows to lie inside the file. Offsets may go back only
  /// to where an earlier call began.
  Result<const std::byte*> at(std::uint64_t offset, std::size_t bytes) {
    if (offset + bytes > offset_ + filled_) TRY(advance(offset, bytes));
    return memory_.get() + (offset - offset_);
  }

 private:
  Status advance(std::uint64_t offset, std::size_t bytes) {
    const std::size_t kept = offset_ + filled_ > offset ? offset_ + filled_ - offset : 0;
    const std::size_t wanted = std::min<std::uint64_t>(std::max(bytes, kWindowBytes), file_bytes_ - offset);
    if (wanted > capacity_) {
      auto larger = std::make_unique_for_overwrite<std::byte[]>(std::max(wanted, kWindowBytes));
      if (kept != 0) std::memcpy(larger.get(), memory_.get() + (filled_ - kept), kept);
      memory_ = std::move(larger);
      capacity_ = std::max(wanted, kWindowBytes);
    } else if (kept != 0) {
      std::memmove(memory_.get(), memory_.get() + (filled_ - kept), kept);
    }
    offset_ = offset;
    filled_ = kept;
    if (wanted > kept) TRY(read_whole(fd_, {memory_.get() + kept, wanted - kept}, offset + kept));
    filled_ = std::max(kept, wanted);
    return {};
  }

  int fd_;
  std::uint64_t file_bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
  std::uint64_t offset_ = 0;  // of memory_[0] in the file
  std::size_t filled_ = 0;
};

}  // namespace

Result<ScanEnd> scan_entries(int fd, const ScanFrom& from, const EntryFound& found) {
  const std::uint64_t file_bytes = std::min(from.file_bytes, kStoreBytesMax);
  ScanEnd end{.offset = from.offset};
  if (from.offset + sizeof(EntryHead) > file_bytes) return end;
  const std::uint64_t waste_max = 4 * (file_bytes - from.offset) + kWasteFloor;
  std::uint64_t wasted = 0;
  Window window(fd, file_bytes);
  std::uint64_t at = from.offset;
  while (at + sizeof(EntryHead) <= file_bytes) {
    ASSIGN(const std::byte* bytes, window.at(at, sizeof(EntryHead)));
    EntryHead head;
    std::memcpy(&head, bytes, sizeof head);
    const bool possible = head.mark == kEntryMark && head.record < from.record_count &&
                          head.bytes <= from.entry_bytes_max &&
                          head.bytes <= file_bytes - at - sizeof(EntryHead);
    if (possible) {
      ASSIGN(bytes, window.at(at, sizeof(EntryHead) + head.bytes));
      if (entry_hash(head, {bytes + sizeof(EntryHead), head.bytes}, from.salt) == head.hash) {
        if (at != end.offset) {
          ++end.damaged_count;
          end.damaged_bytes += at - end.offset;
        }
        found(head.record, at, head.bytes);
        at += entry_span(head.bytes);
        end.offset = at;
        continue;
      }
      wasted += sizeof(EntryHead) + head.bytes;
      if (wasted > waste_max) {
        end.hopeless = true;
        return end;
      }
    }
    at += kEntryAlign;
  }
  return end;
}

}  // namespace carya::io
