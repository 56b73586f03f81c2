// flush and refresh: steps 1 to 3 of the protocol in record_store.h.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "base/clock.h"
#include "io/store/store_state.h"

namespace carya::io {
namespace {

EntryHead head_at(std::span<const std::byte> entries, std::size_t at) {
  EntryHead head;
  std::memcpy(&head, entries.data() + at, sizeof head);
  return head;
}

/// Put the hashes into a run of entries.
void seal(std::span<std::byte> entries, std::uint64_t salt) {
  for (std::size_t at = 0; at < entries.size();) {
    EntryHead head = head_at(entries, at);
    head.hash = entry_hash(head, entries.subspan(at + sizeof head, head.bytes), salt);
    std::memcpy(entries.data() + at, &head, sizeof head);
    at += entry_span(head.bytes);
  }
}

/// How many bytes of whole entries fit into `room`, and how many entries do not.
struct Fit {
  std::size_t bytes = 0;
  std::uint64_t left_count = 0;
};

Fit fit(std::span<const std::byte> entries, std::uint64_t room) {
  Fit result;
  for (std::size_t at = 0; at < entries.size();) {
    const std::size_t end = at + entry_span(head_at(entries, at).bytes);
    if (end <= room) {
      result.bytes = end;
    } else {
      ++result.left_count;
    }
    at = end;
  }
  return result;
}

}  // namespace

Result<FileLock> RecordStore::State::lock_current() {
  const std::int64_t give_up = monotonic_ns() + options.lock_wait_ms * 1'000'000LL;
  do {  // each failed try means that another process replaced the file just then
    ASSIGN(FileLock lock, FileLock::acquire(generation->file.fd.get(), options.lock_wait_ms, path));
    if (generation->file.name_of(path) == StoreFile::Name::kThis) {
      TRY(catch_up());
      return lock;
    }
    {
      const FileLock done = std::move(lock);
    }  // before the file it is on is closed
    TRY(open_generation(options.replace_mismatch ? OpenMode::kCreate : OpenMode::kCreateOnly));
    if (!generation->file.read_only_reason.empty()) {
      return fail(Code::kPermission, generation->file.read_only_reason);
    }
  } while (monotonic_ns() < give_up);
  return fail(Code::kTimeout, "lock " + path + ": other processes keep replacing it");
}

Status RecordStore::State::write_outgoing() {
  StoreGeneration& now = *generation;
  const std::uint64_t begin = align_up(std::max(now.file_bytes, now.scanned_end), kEntryAlign);
  const std::uint64_t room = options.bytes_max > begin ? options.bytes_max - begin : 0;
  const Fit allowed = fit(outgoing, room);
  const std::span<std::byte> entries = std::span(outgoing).first(allowed.bytes);
  seal(entries, now.file.header.salt);
  const Written written = write_whole(now.file.fd.get(), entries, begin);
  const Fit kept = fit(entries, written.bytes);
  for (std::size_t at = 0; at < kept.bytes;) {
    const EntryHead head = head_at(entries, at);
    now.note(head.record, {.offset = begin + at, .bytes = head.bytes});
    at += entry_span(head.bytes);
  }
  outgoing.clear();
  if (begin != now.scanned_end && kept.bytes != 0) ++now.damaged_count;  // a torn tail lies between
  if (kept.bytes != 0) now.scanned_end = begin + kept.bytes;
  if (written.bytes != 0) now.file_bytes = begin + written.bytes;
  {
    const std::lock_guard lock(appending);
    refused_count += allowed.left_count + kept.left_count;
    quota_reached |= allowed.left_count != 0;
  }
  publish_numbers();
  if (written.sys_errno != 0) return fail_errno("write " + path, written.sys_errno);
  if (allowed.left_count != 0) {
    return fail(Code::kExhausted,
                "store " + path + ": quota of " + std::to_string(options.bytes_max) + " B reached");
  }
  return {};
}

Status RecordStore::flush() {
  State& state = *state_;
  TRY(state.check_process());
  const std::lock_guard writing(state.writing);
  for (int turn = 0; turn < 2; ++turn) {  // what a time-out kept, then what came since
    if (state.outgoing.empty()) {
      const std::lock_guard appending(state.appending);
      std::swap(state.outgoing, state.pending);
    }
    if (state.outgoing.empty() || state.generation == nullptr) break;
    Status done;
    bool quota = false;
    if (Result<FileLock> lock = state.lock_current()) {
      done = state.write_outgoing();
      quota = !done && done.error().sys_errno == 0;
    } else {
      done = std::unexpected(lock.error());
    }
    if (done) continue;
    if (done.error().code == Code::kTimeout) return done;
    if (!quota) state.make_read_only(done.error().message);
    state.drop_outgoing();
    return done;
  }
  return {};
}

Status RecordStore::refresh() {
  State& state = *state_;
  TRY(state.check_process());
  const std::lock_guard writing(state.writing);
  const OpenMode mode = state.options.read_only ? OpenMode::kReadOnly : OpenMode::kWrite;
  const bool renamed =
      state.generation != nullptr && state.generation->file.name_of(state.path) == StoreFile::Name::kOther;
  if (renamed) {
    // Compacted by another process, or replaced by something of another identity, which is not ours to
    // follow.
    const Status opened = state.open_generation(mode);
    if (opened || opened.error().code == Code::kInvalidArgument || opened.error().code == Code::kNotFound)
      return {};
    return opened;
  }
  if (state.generation == nullptr) return {};
  return state.catch_up();
}

}  // namespace carya::io
