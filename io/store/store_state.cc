#include "io/store/store_state.h"

#include <unistd.h>

#include <cstring>

namespace carya::io {

void StoreGeneration::note(std::uint64_t record, RecordTable::Place place) {
  const std::optional<RecordTable::Place> before = table.put(record, place);
  if (before) {
    live_bytes -= before->bytes;
    live_span -= entry_span(before->bytes);
  } else {
    ++entries;
  }
  live_bytes += place.bytes;
  live_span += entry_span(place.bytes);
}

std::uint64_t StoreGeneration::garbage_bytes() const {
  const std::uint64_t used = sizeof(StoreHeader) + live_span;
  return file_bytes > used ? file_bytes - used : 0;  // a last entry may lack its padding
}

Status RecordStore::State::open_generation(OpenMode mode) {
  ASSIGN(StoreFile file, open_store_file(path, identity, mode, options.lock_wait_ms));
  ASSIGN(RecordTable table, RecordTable::create(identity.record_count));
  auto next = std::make_unique<StoreGeneration>(std::move(file), std::move(table));
  become(std::move(next));
  return catch_up();
}

Status RecordStore::State::discard_damaged() {
  {
    const StoreFile& file = generation->file;
    ASSIGN(const FileLock lock, FileLock::acquire(file.fd.get(), options.lock_wait_ms, path));
    if (file.name_of(path) == StoreFile::Name::kThis) {  // else another process has done it
      ASSIGN(const StoreFile fresh, create_successor(path, identity, 0644));
      TRY(publish_successor(path, fresh));
    }
  }
  return open_generation(OpenMode::kCreateOnly);
}

void RecordStore::State::become(std::unique_ptr<StoreGeneration> next) {
  const std::string reason = next->file.read_only_reason;
  {
    const std::unique_lock lock(switching);
    std::swap(generation, next);
  }
  if (!reason.empty()) make_read_only(reason);
  publish_numbers();
}  // the old generation's file is closed here, outside the lock

Status RecordStore::State::catch_up() {
  StoreGeneration& now = *generation;
  ASSIGN(const std::uint64_t file_bytes, now.file.bytes());
  if (file_bytes == now.file_bytes) return {};
  if (file_bytes < now.file_bytes) {
    return fail(Code::kIo, "store " + path + ": the file became shorter");
  }
  const ScanFrom from{.salt = now.file.header.salt,
                      .record_count = identity.record_count,
                      .entry_bytes_max = options.entry_bytes_max,
                      .offset = now.scanned_end,
                      .file_bytes = file_bytes};
  const auto found = [&now](std::uint64_t record, std::uint64_t offset, std::uint32_t bytes) {
    now.note(record, {.offset = offset, .bytes = bytes});
  };
  ASSIGN(const ScanEnd end, scan_entries(now.file.fd.get(), from, found));
  now.scanned_end = end.offset;
  now.file_bytes = file_bytes;
  now.damaged_count += end.damaged_count;
  publish_numbers();
  if (end.hopeless) return fail(Code::kCorrupt, "store " + path + ": damaged beyond use");
  return {};
}

void RecordStore::State::drop_outgoing() {
  std::uint64_t count = 0;
  for (std::size_t at = 0; at < outgoing.size(); ++count) {
    EntryHead head;
    std::memcpy(&head, outgoing.data() + at, sizeof head);
    at += entry_span(head.bytes);
  }
  outgoing.clear();
  const std::lock_guard lock(appending);
  refused_count += count;
}

void RecordStore::State::publish_numbers() {
  const std::lock_guard lock(appending);
  seen.entries = generation->entries;
  seen.live_bytes = generation->live_bytes;
  seen.file_bytes = generation->file_bytes;
  seen.garbage_bytes = generation->garbage_bytes();
  seen.damaged_count = generation->damaged_count;
}

void RecordStore::State::make_read_only(const std::string& reason) {
  const std::lock_guard lock(appending);
  if (read_only_reason.empty()) read_only_reason = reason;
}

bool RecordStore::State::writable() const {
  const std::lock_guard lock(appending);
  return read_only_reason.empty();
}

Status RecordStore::State::check_process() const {
  if (::getpid() == process) return {};
  return fail(Code::kForked, "store " + path + ": used in a forked child");
}

}  // namespace carya::io
