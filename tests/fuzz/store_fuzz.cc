// Any bytes behind a right header: every entry that is found is inside the file, reads and checks, and the
// store goes on. A part of the input may be given right hashes, so that what stands behind them is reached.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "io/store/record_store.h"
#include "io/store/store_format.h"
#include "io/store/store_scan.h"

namespace {

using namespace carya;
using namespace carya::io;

constexpr StoreIdentity kIdentity{.dataset = {1, 2}, .kind = 1, .record_count = 16};
constexpr std::uint64_t kSalt = 3;

/// Header and input; where the input has an entry's mark, its numbers are bounded, and its hash is made right
/// when an odd byte asks for it.
std::vector<std::byte> make_file(const std::uint8_t* data, std::size_t size) {
  const StoreHeader header = make_store_header(kIdentity, kSalt);
  std::vector<std::byte> file(sizeof header + size);
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + sizeof header, data, size);
  for (std::size_t at = sizeof header; at + sizeof(EntryHead) <= file.size(); at += kEntryAlign) {
    EntryHead head;
    std::memcpy(&head, file.data() + at, sizeof head);
    if (static_cast<std::uint8_t>(head.mark) != static_cast<std::uint8_t>(kEntryMark)) continue;
    const bool right = (head.hash & 1) != 0;
    head.mark = kEntryMark;
    head.record &= 31;
    head.bytes &= 127;
    const std::size_t left = file.size() - at - sizeof head;
    if (right && head.bytes <= left) {
      head.hash = entry_hash(head, {file.data() + at + sizeof head, head.bytes}, kSalt);
    }
    std::memcpy(file.data() + at, &head, sizeof head);
    if (right) at += std::min<std::size_t>(left, head.bytes) & ~(kEntryAlign - 1);
  }
  return file;
}

/// Where the newest entry of each record is, by the rules of FORMAT.md and nothing else: the reference.
std::vector<std::vector<std::byte>> newest_of(const std::vector<std::byte>& file) {
  std::vector<std::vector<std::byte>> newest(kIdentity.record_count);
  for (std::size_t at = sizeof(StoreHeader); at + sizeof(EntryHead) <= file.size();) {
    EntryHead head;
    std::memcpy(&head, file.data() + at, sizeof head);
    const auto payload = std::span(file).subspan(at + sizeof head);
    const bool right = head.mark == kEntryMark && head.record < kIdentity.record_count &&
                       head.bytes <= payload.size() &&
                       entry_hash(head, payload.first(head.bytes), kSalt) == head.hash;
    if (right) newest[head.record].assign(payload.begin(), payload.begin() + head.bytes);
    at += right ? entry_span(head.bytes) : kEntryAlign;
  }
  return newest;
}

void check(RecordStore& store, const std::vector<std::vector<std::byte>>& newest) {
  std::vector<std::byte> out(4096);
  for (std::uint64_t record = 0; record < kIdentity.record_count; ++record) {
    const auto bytes = store.get(record, out);
    const std::size_t expected = newest[record].size();
    CHECK(bytes.value_or(0) == expected);
    CHECK(std::equal(newest[record].begin(), newest[record].end(), out.begin()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4000) return 0;
  const std::vector<std::byte> file = make_file(data, size);
  const UniqueFd fd(::memfd_create("store_fuzz", MFD_CLOEXEC));
  CHECK(::write(fd.get(), file.data(), file.size()) == static_cast<ssize_t>(file.size()));
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  auto newest = newest_of(file);
  const auto opened =
      RecordStore::open(path, kIdentity, {.pending_bytes_max = 4096, .replace_mismatch = false});
  CHECK(opened.has_value());
  RecordStore& store = **opened;
  check(store, newest);
  CHECK(store.append(5, std::span(file).first(20)));
  CHECK(store.flush().has_value());
  newest[5].assign(file.begin(), file.begin() + 20);
  check(store, newest);
  const auto again =
      RecordStore::open(path, kIdentity, {.pending_bytes_max = 4096, .replace_mismatch = false});
  CHECK(again.has_value());
  check(**again, newest);
  CHECK((*again)->verify().has_value());
  return 0;
}
