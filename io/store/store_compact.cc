// compact: step 4 of the protocol in record_store.h.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/store/store_state.h"

namespace carya::io {
namespace {

constexpr std::size_t kBatchBytes = std::size_t{1} << 20;

/// Collects whole entries and writes them behind each other.
class EntryWriter {
 public:
  EntryWriter(StoreGeneration& to, const std::string& name) : to_(to), name_(name) {}

  Status add(EntryHead head, std::span<const std::byte> payload) {
    head.hash = entry_hash(head, payload, to_.file.header.salt);
    const std::size_t at = batch_.size();
    batch_.resize(at + entry_span(payload.size()));
    std::memcpy(batch_.data() + at, &head, sizeof head);
    if (!payload.empty()) std::memcpy(batch_.data() + at + sizeof head, payload.data(), payload.size());
    to_.note(head.record, {.offset = to_.scanned_end + at, .bytes = head.bytes});
    return batch_.size() < kBatchBytes ? Status{} : write();
  }

  Status write() {
    const Written written = write_whole(to_.file.fd.get(), batch_, to_.scanned_end);
    if (written.sys_errno != 0) return fail_errno("write " + name_, written.sys_errno);
    to_.scanned_end += batch_.size();
    to_.file_bytes = to_.scanned_end;
    batch_.clear();
    return {};
  }

 private:
  StoreGeneration& to_;
  const std::string& name_;
  std::vector<std::byte> batch_;
};

struct Live {
  std::uint64_t offset;
  std::uint64_t record;
  bool operator<(const Live& other) const { return offset < other.offset; }
};

std::vector<Live> live_by_offset(const StoreGeneration& from) {
  std::vector<Live> all;
  all.reserve(from.entries);
  for (std::uint64_t record = 0; record < from.table.record_count(); ++record) {
    if (const auto place = from.table.get(record)) all.push_back({place->offset, record});
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// Entries that no longer check are left behind.
Status copy_live(const StoreGeneration& from, EntryWriter& writer) {
  std::vector<std::byte> entry;
  for (const Live& live : live_by_offset(from)) {
    const std::uint32_t bytes = from.table.get(live.record)->bytes;
    entry.resize(sizeof(EntryHead) + bytes);
    if (!read_whole(from.file.fd.get(), entry, live.offset)) continue;
    EntryHead head;
    std::memcpy(&head, entry.data(), sizeof head);
    const auto payload = std::span<const std::byte>(entry).subspan(sizeof head);
    const bool right = head.mark == kEntryMark && head.bytes == bytes && head.record == live.record &&
                       head.hash == entry_hash(head, payload, from.file.header.salt);
    if (right) TRY(writer.add(head, payload));
  }
  return writer.write();
}

}  // namespace

Result<std::unique_ptr<StoreGeneration>> RecordStore::State::write_successor() const {
  struct stat status;
  if (::fstat(generation->file.fd.get(), &status) != 0) return fail_errno("stat " + path, errno);
  ASSIGN(RecordTable table, RecordTable::create(identity.record_count));
  ASSIGN(StoreFile file, create_successor(path, identity, status.st_mode & 0777));
  auto next = std::make_unique<StoreGeneration>(std::move(file), std::move(table));
  next->file_bytes = sizeof(StoreHeader);
  EntryWriter writer(*next, path);
  Status copied = copy_live(*generation, writer);
  // The only place that waits for the disk: a rename may reach it before the bytes, and the old file is gone
  // then.
  if (copied && ::fdatasync(next->file.fd.get()) != 0) copied = fail_errno("sync " + path + ".new", errno);
  if (!copied) {
    drop_successor(path);
    return std::unexpected(copied.error());
  }
  TRY(publish_successor(path, next->file));
  return next;
}

Result<bool> RecordStore::compact(bool always) {
  State& state = *state_;
  TRY(state.check_process());
  const std::lock_guard writing(state.writing);
  if (state.generation == nullptr || !state.writable()) {
    return fail(Code::kPermission, "compact " + state.path + ": " + stats().read_only_reason);
  }
  std::unique_ptr<StoreGeneration> next;
  {
    ASSIGN(const FileLock lock, state.lock_current());
    const StoreGeneration& now = *state.generation;
    if (!always && now.garbage_bytes() <= now.file_bytes / 2) return false;
    ASSIGN(next, state.write_successor());
  }  // a writer that waited sees that the path names another file, and opens that
  state.become(std::move(next));
  return true;
}

}  // namespace carya::io
