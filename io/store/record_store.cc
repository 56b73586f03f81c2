#include "io/store/record_store.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "io/store/store_check.h"
#include "io/store/store_state.h"

namespace carya::io {
namespace {

Status check_limits(const StoreIdentity& identity, const StoreOptions& options) {
  const auto refuse = [](const char* what, std::uint64_t given, std::uint64_t allowed) -> Status {
    return fail(Code::kInvalidArgument, std::string("store: ") + what + " " + std::to_string(given) +
                                            ", at most " + std::to_string(allowed));
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
  if (options.read_only) {
    state->read_only_reason = "opened read-only";
  } else {
    state->pending.reserve(options.pending_bytes_max);
    state->outgoing.reserve(options.pending_bytes_max);
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
  const std::shared_lock lock(state_->switching);
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
  const std::shared_lock lock(state_->switching);
  if (state_->generation == nullptr) return std::nullopt;
  const std::optional<RecordTable::Place> place = state_->generation->table.get(record);
  if (!place) return std::nullopt;
  return place->bytes;
}

bool RecordStore::append(std::uint64_t record, std::span<const std::byte> bytes) {
  State& state = *state_;
  const std::lock_guard lock(state.appending);
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

StoreStats RecordStore::stats() const {
  const std::lock_guard lock(state_->appending);
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
    const std::shared_lock lock(state_->switching);
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

}  // namespace carya::io
