#include "io/store/record_store.h"

#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "io/store/store_check.h"
#include "io/store/store_state.h"

namespace carya::io {
namespace {

Status check_limits(const StoreIdentity& identity, const StoreOptions& options) {
  const auto refuse = [](const char* what, std::uint64_t given, std::uint64_t allowed) -> Status {
    return fail(Code::kInvalidArgument, fmt::format("store: {} {}, at most {}", what, given, allowed));
  };
  if (identity.record_count > kStoreRecordsMax)
    return refuse("record_count", identity.record_count, kStoreRecordsMax);
  if (options.bytes_max > kStoreBytesMax) return refuse("bytes_max", options.bytes_max, kStoreBytesMax);
  if (options.entry_bytes_max > kStoreEntryBytesMax)
    return refuse("entry_bytes_max", options.entry_bytes_max, kStoreEntryBytesMax);
  return {};
}

/// Head and payload by one system call; the bytes read, or nothing.
std::optional<std::size_t> read_entry(int fd, std::uint64_t offset, EntryHead& head,
                                      std::span<std::byte> payload) {
  const iovec parts[2] = {{&head, sizeof head}, {payload.data(), payload.size()}};
  ssize_t got;
  do {
    got = ::preadv(fd, parts, 2, static_cast<off_t>(offset));
  } while (got < 0 && errno == EINTR);
  if (got < static_cast<ssize_t>(sizeof head)) return std::nullopt;
  const std::size_t have = static_cast<std::size_t>(got) - sizeof head;
  if (have < payload.size() &&  // rare: a signal or a network file system cut the read short
      !read_whole(fd, payload.subspan(have), offset + static_cast<std::uint64_t>(got))) {
    return std::nullopt;
  }
  return payload.size();
}

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

RecordStore::RecordStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
RecordStore::~RecordStore() = default;

Result<std::unique_ptr<RecordStore>> RecordStore::open(const std::string& path, const StoreIdentity& identity,
                                                       const StoreOptions& options) {
  TRY(check_limits(identity, options));
  auto state = std::make_unique<State>();
  state->path = path;
  state->identity = identity;
  state->options = options;
  state->process = ::getpid();
  const MutexLock writing(state->writing);
  {
    const MutexLock appending(state->appending);
    state->readers_at_most = options.readers;
    if (options.read_only) {
      state->read_only_reason = "opened read-only";
    } else {
      state->pending.reserve(options.pending_bytes_max);
      state->outgoing.reserve(options.pending_bytes_max);
    }
  }
  const OpenMode mode = options.read_only          ? OpenMode::kReadOnly
                        : options.replace_mismatch ? OpenMode::kCreate
                                                   : OpenMode::kCreateOnly;
  Status opened = state->open_generation(mode);
  const bool hopeless = !opened && opened.error().code == Code::kCorrupt && state->generation != nullptr;
  if (hopeless && options.replace_mismatch && state->writable()) opened = state->discard_damaged();
  if (!opened) {
    const bool mismatch =
        opened.error().code == Code::kCorrupt || opened.error().code == Code::kInvalidArgument;
    if (mismatch && !options.replace_mismatch) return std::unexpected(opened.error());
    if (opened.error().code == Code::kExhausted && opened.error().sys_errno == ENOMEM) {
      return std::unexpected(opened.error());
    }
    state->make_read_only(opened.error().message);
  }
  return std::unique_ptr<RecordStore>(new RecordStore(std::move(state)));
}

std::optional<std::size_t> RecordStore::get(std::uint64_t record, std::span<std::byte> out) const {
  const SharedLock lock(state_->switching);
  const StoreGeneration* now = state_->generation.get();
  if (now == nullptr) return std::nullopt;
  const std::optional<RecordTable::Place> place = now->table.get(record);
  if (!place) return std::nullopt;
  if (place->bytes > out.size()) return place->bytes;
  const std::span<std::byte> payload = out.first(place->bytes);
  EntryHead head;
  if (read_entry(now->file.fd.get(), place->offset, head, payload) && head.mark == kEntryMark &&
      head.bytes == place->bytes && head.record == record &&
      head.hash == entry_hash(head, payload, now->file.header.salt)) {
    return place->bytes;
  }
  state_->get_failures.fetch_add(1, std::memory_order_relaxed);  // a count, orders nothing
  return std::nullopt;
}

std::optional<std::size_t> RecordStore::bytes_of(std::uint64_t record) const {
  const SharedLock lock(state_->switching);
  if (state_->generation == nullptr) return std::nullopt;
  const std::optional<RecordTable::Place> place = state_->generation->table.get(record);
  if (!place) return std::nullopt;
  return place->bytes;
}

bool RecordStore::append(std::uint64_t record, std::span<const std::byte> bytes) {
  State& state = *state_;
  const MutexLock lock(state.appending);
  const std::uint64_t span = entry_span(bytes.size());
  const bool fits = record < state.identity.record_count && bytes.size() <= state.options.entry_bytes_max &&
                    span <= state.options.pending_bytes_max - state.pending.size();
  const bool over_quota = state.seen.file_bytes + state.pending.size() + span > state.options.bytes_max;
  if (!fits || over_quota || !state.read_only_reason.empty()) {
    ++state.refused_count;
    state.quota_reached |= fits && over_quota;
    return false;
  }
  // The hash waits for flush(): it depends on the file the entry goes to, which may be another one by then.
  const EntryHead head{
      .mark = kEntryMark, .bytes = static_cast<std::uint32_t>(bytes.size()), .record = record, .hash = 0};
  const std::size_t at = state.pending.size();
  state.pending.resize(at + span);  // within what was reserved; zeroes the padding
  std::memcpy(state.pending.data() + at, &head, sizeof head);
  if (!bytes.empty()) std::memcpy(state.pending.data() + at + sizeof head, bytes.data(), bytes.size());
  return true;
}

void RecordStore::keep_from_others(const Readers& readers) {
  const MutexLock lock(state_->appending);
  state_->readers_at_most = both(state_->readers_at_most, readers);
}

Readers RecordStore::State::readers() const {
  const MutexLock lock(appending);
  return readers_at_most;
}

StoreStats RecordStore::stats() const {
  const MutexLock lock(state_->appending);
  StoreStats stats = state_->seen;
  stats.pending_bytes = state_->pending.size();
  stats.refused_count = state_->refused_count;
  stats.quota_reached = state_->quota_reached;
  stats.read_only_reason = state_->read_only_reason;
  stats.get_failures = state_->get_failures.load(std::memory_order_relaxed);
  return stats;
}

Result<StoreCheck> RecordStore::verify() const {
  StoreFile copy;
  {
    const SharedLock lock(state_->switching);
    if (state_->generation == nullptr)
      return fail(Code::kNotFound, "store " + state_->path + ": there is no file");
    copy.header = state_->generation->file.header;
    copy.fd.reset(::dup(state_->generation->file.fd.get()));
  }
  if (!copy.fd) return fail_errno("dup of " + state_->path, errno);
  return check_store_file(copy);
}

const StoreIdentity& RecordStore::identity() const {
  return state_->identity;
}

const std::string& RecordStore::path() const {
  return state_->path;
}

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
    const MutexLock lock(appending);
    refused_count += allowed.left_count + kept.left_count;
    quota_reached |= allowed.left_count != 0;
  }
  publish_numbers();
  if (written.sys_errno != 0) return fail_errno("write " + path, written.sys_errno);
  if (allowed.left_count != 0) {
    return fail(Code::kExhausted, fmt::format("store {}: quota of {} B reached", path, options.bytes_max));
  }
  return {};
}

Status RecordStore::flush() {
  State& state = *state_;
  TRY(state.check_process());
  const MutexLock writing(state.writing);
  for (int turn = 0; turn < 2; ++turn) {  // what a time-out kept, then what came since
    if (state.outgoing.empty()) {
      const MutexLock appending(state.appending);
      std::swap(state.outgoing, state.pending);
    }
    if (state.outgoing.empty() || state.generation == nullptr) break;
    Status done;
    bool quota = false;
    if (Result<FileLock> lock = state.lock_current()) {
      done = io::keep_from_others(state.generation->file.fd.get(), state.readers(), state.path);
      if (done) done = state.write_outgoing();
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
  const MutexLock writing(state.writing);
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

Result<std::unique_ptr<StoreGeneration>> RecordStore::State::write_successor() const {
  ASSIGN(const Readers now, readers_of_open(generation->file.fd.get(), path));
  ASSIGN(RecordTable table, RecordTable::create(identity.record_count));
  ASSIGN(StoreFile file, create_successor(path, identity, both(now, readers())));
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
  const MutexLock writing(state.writing);
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
  ASSIGN(StoreFile file, open_store_file(path, identity, mode, options.lock_wait_ms, readers()));
  ASSIGN(RecordTable table, RecordTable::create(identity.record_count));
  auto next = std::make_unique<StoreGeneration>(std::move(file), std::move(table));
  become(std::move(next));
  TRY(catch_up());
  return writable() ? io::keep_from_others(generation->file.fd.get(), readers(), path) : Status();
}

Status RecordStore::State::discard_damaged() {
  {
    const StoreFile& file = generation->file;
    ASSIGN(const FileLock lock, FileLock::acquire(file.fd.get(), options.lock_wait_ms, path));
    if (file.name_of(path) == StoreFile::Name::kThis) {  // else another process has done it
      ASSIGN(const StoreFile fresh, create_successor(path, identity, readers()));
      TRY(publish_successor(path, fresh));
    }
  }
  return open_generation(OpenMode::kCreateOnly);
}

void RecordStore::State::become(std::unique_ptr<StoreGeneration> next) {
  const std::string reason = next->file.read_only_reason;
  {
    const ExclusiveLock lock(switching);
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
  const MutexLock lock(appending);
  refused_count += count;
}

void RecordStore::State::publish_numbers() {
  const MutexLock lock(appending);
  seen.entries = generation->entries;
  seen.live_bytes = generation->live_bytes;
  seen.file_bytes = generation->file_bytes;
  seen.garbage_bytes = generation->garbage_bytes();
  seen.damaged_count = generation->damaged_count;
}

void RecordStore::State::make_read_only(const std::string& reason) {
  const MutexLock lock(appending);
  if (read_only_reason.empty()) read_only_reason = reason;
}

bool RecordStore::State::writable() const {
  const MutexLock lock(appending);
  return read_only_reason.empty();
}

Status RecordStore::State::check_process() const {
  if (::getpid() == process) return {};
  return fail(Code::kForked, "store " + path + ": used in a forked child");
}

}  // namespace carya::io
