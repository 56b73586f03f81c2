#include "io/segments/segment_store.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <set>
#include <utility>

#include "base/clock.h"

namespace carya::io {
namespace {

/// So many segments fill the capacity: few enough to keep open, many enough that what is promised is small beside it.
constexpr std::uint64_t kSegmentsOfCapacity = 128;
constexpr std::uint64_t kSegmentBytesMin = 256 << 10, kSegmentBytesLarge = std::uint64_t{2} << 30;
/// Entries of unlike sizes: rows for so many more than the mean says.
constexpr std::uint64_t kRowsSpare = 16;
constexpr std::int64_t kSayUsedNs = 600'000'000'000;
/// This part of the file system stays free.
constexpr double kLeftFree = 0.01;

std::string file_name(const SegmentWriter& writer) {
  return std::filesystem::path(writer.path()).filename();
}

}  // namespace

SegmentStore::SegmentStore(const SegmentStoreOptions& options)
    : options_(options), folder_(options.folder + "/" + place_name(options.place)), user_(::geteuid()) {}

SegmentStore::~SegmentStore() {
  seal();
}

Result<std::unique_ptr<SegmentStore>> SegmentStore::open(const SegmentStoreOptions& options) {
  if (options.capacity_bytes == 0)
    return fail(Code::kInvalidArgument, "cache: got a capacity of 0 B; give 1 or more");
  auto store = std::unique_ptr<SegmentStore>(new SegmentStore(options));
  const MutexLock lock(store->working_);
  const std::error_code made = make_place_folder(store->folder_);
  if (Status looked = store->look(); !looked && store->stats().entries == 0)
    return made ? Result<std::unique_ptr<SegmentStore>>(fail_errno("make " + store->folder_, made.value()))
                : std::unexpected(std::move(looked.error()));
  store->say_used();
  return store;
}

/// The folder, which may have vanished, and what says to a person what is in it.
Status SegmentStore::prepare() {
  if (const std::error_code made = make_place_folder(folder_); made)
    return fail_errno("make " + folder_, made.value());
  return write_about(folder_, options_.about, options_.own_only);
}

void SegmentStore::say_used() {
  const std::int64_t now = monotonic_ns();
  if (said_used_ns_ != 0 && now - said_used_ns_ < kSayUsedNs) return;
  said_used_ns_ = now;
  touch_about(folder_);
}

SegmentEntry SegmentStore::find(Hash128 identity) const {
  const SharedLock lock(table_);
  const auto found = entries_.find(identity);
  return found == entries_.end() ? SegmentEntry{} : found->second;
}

Status SegmentStore::read(const SegmentEntry& entry, std::span<std::byte> out, BlockBuffer* blocks) {
  Status done = entry.segment->read(entry.row, out, blocks);
  if (!done && (done.error().code == Code::kCorrupt || done.error().code == Code::kNotFound ||
                done.error().code == Code::kPermission)) {
    const ExclusiveLock lock(table_);
    const auto found = entries_.find(entry.row.identity());
    if (found != entries_.end() && found->second.segment == entry.segment) {
      stats_.entry_bytes -= found->second.row.bytes;
      entries_.erase(found);
    }
    stats_.damaged += done.error().code == Code::kPermission ? 0 : 1;
  }
  return done;
}

void SegmentStore::note(const std::shared_ptr<SegmentReader>& segment, std::span<const SegmentRow> rows) {
  const ExclusiveLock lock(table_);
  for (const SegmentRow& row : rows)
    if (entries_.try_emplace(row.identity(), SegmentEntry{segment, row}).second)
      stats_.entry_bytes += row.bytes;
}

/// The segment is gone: so are its entries.
void SegmentStore::forget(const SegmentReader& segment) {
  std::uint64_t bytes = 0;
  const ExclusiveLock lock(table_);
  std::erase_if(entries_, [&](const auto& entry) {
    const bool goes = entry.second.segment.get() == &segment;
    if (goes) bytes += entry.second.row.bytes;
    return goes;
  });
  stats_.entry_bytes -= bytes;
}

Status SegmentStore::refresh() {
  const MutexLock lock(working_);
  TRY(look());
  say_used();
  return {};
}

Status SegmentStore::look() {
  ASSIGN(const std::vector<SegmentName> names, list_segments(folder_));
  for (auto& [name, known] : segments_) known.seen = false;
  std::uint64_t damaged = 0;
  Status unread;  // the last fault of storage, which costs only what it met
  for (const SegmentName& name : names) {
    Known& known = segments_[name.name];
    known.seen = true;
    if (!known.reader && !known.own) {
      // A file that is being made has no header yet, and a broken one is no use: the next look tries again.
      auto opened = SegmentReader::open(folder_ + "/" + name.name, options_.place);
      if (!opened && opened.error().code == Code::kPermission) continue;  // another user's
      if (!opened && opened.error().code != Code::kCorrupt && opened.error().code != Code::kNotFound)
        unread = std::unexpected(std::move(opened.error()));
      if (!opened) continue;
      known.reader = std::move(*opened);
    }
    if (known.own || known.reader->is_sealed()) continue;
    std::vector<SegmentRow> rows;
    const std::uint64_t before = known.reader->damaged();
    if (Status looked = known.reader->look(rows); !looked) {
      if (looked.error().code == Code::kPermission)  // it was taken from this user
        forget(*std::exchange(known.reader, nullptr));
      else
        unread = std::move(looked);
      continue;
    }
    damaged += known.reader->damaged() - before;
    note(known.reader, rows);
  }
  std::erase_if(segments_, [&](const auto& known) {
    if (known.second.seen) return false;
    if (known.second.reader) forget(*known.second.reader);
    return true;
  });
  for (auto one = written_.begin(); one != written_.end();)  // somebody may have removed its file
    one = segments_.contains(file_name(one->second.writer)) ? std::next(one) : written_.erase(one);
  std::uint64_t all = 0, others = 0;
  Part part;
  if (const auto places = list_places(options_.folder)) {
    for (const PlaceInfo& place : *places) {
      all += place.bytes;
      if (place.path != folder_) others += place.bytes;
    }
    part = part_of(*places, true);
  }
  const ExclusiveLock lock(table_);
  stats_.tier_bytes = all;
  stats_.other_bytes = others;
  stats_.room_bytes = std::max(part.bytes - std::min(part.bytes, part.own_bytes),
                               options_.capacity_bytes - std::min(options_.capacity_bytes, others));
  stats_.segments = segments_.size();
  stats_.oldest_s = names.empty() ? 0 : std::ranges::min(names, {}, &SegmentName::changed_s).changed_s;
  stats_.damaged += damaged;
  return unread;
}

/// Whether this process writes the file of that name now.
bool SegmentStore::is_written(const std::string& name) const {
  return std::ranges::any_of(written_,
                             [&](const auto& written) { return file_name(written.second.writer) == name; });
}

/// What this user's files take (`elsewhere`: in other places alone), and its part of the capacity among all users that have
/// files in the folder.
SegmentStore::Part SegmentStore::part_of(const std::vector<PlaceInfo>& places, bool elsewhere) const {
  std::set<std::uint32_t> users{user_};
  Part part;
  for (const PlaceInfo& place : places)
    for (const auto& [user, bytes] : place.user_bytes) {
      users.insert(user);
      if (user == user_ && (!elsewhere || place.path != folder_)) part.own_bytes += bytes;
    }
  part.bytes = options_.capacity_bytes / users.size();
  return part;
}

/// What may be promised to a segment that is made already and counts in the listing: at most `wanted`.
Result<std::uint64_t> SegmentStore::make_room(std::uint64_t wanted) {
  const double now_s = touch_about(folder_);
  std::uint64_t all = 0;
  Part part;
  for (int pass = 0; pass < 2; ++pass) {
    ASSIGN(std::vector<PlaceInfo> places, list_places(options_.folder));
    part = part_of(places, false);
    all = 0;
    for (const PlaceInfo& place : places) all += place.bytes;
    if (all <= options_.capacity_bytes || pass == 1) break;
    for (const PlaceInfo& place : places) {
      const auto segments = list_segments(place.path);
      if (!segments) continue;
      for (const SegmentName& segment : *segments)
        if (now_s > 0 && (place.path != folder_ || !is_written(segment.name)))
          if (const auto cut =
                  cut_abandoned(place.path + "/" + segment.name, options_.locks, options_.quiet_s, now_s))
            all -= std::min(all, *cut);
    }
    std::ranges::sort(places, {}, &PlaceInfo::used_s);  // those that nobody has used for longest go first
    for (const PlaceInfo& place : places)
      if (all > options_.capacity_bytes && place.path != folder_ && now_s - place.used_s > options_.unused_s)
        if (remove_place(place.path)) all -= std::min(all, place.bytes);
  }
  const std::uint64_t over = std::min(all - std::min(all, options_.capacity_bytes),
                                      part.own_bytes - std::min(part.own_bytes, part.bytes));
  std::uint64_t room = wanted - std::min(wanted, over);
  struct statvfs system;
  if (::statvfs(folder_.c_str(), &system) == 0) {
    const double free = static_cast<double>(system.f_bavail) * static_cast<double>(system.f_frsize);
    const double left =
        kLeftFree * static_cast<double>(system.f_blocks) * static_cast<double>(system.f_frsize);
    room = std::min(room, static_cast<std::uint64_t>(std::max(0.0, free - left)));
  }
  return room;
}

/// Those of the file that an entry goes to.
Readers SegmentStore::whose_file(const Readers& readers) const {
  if (options_.own_only) return {};
  if (readers.who != Readers::Who::kGroup || written_.contains(readers)) return readers;
  const auto groups = std::ranges::count_if(
      written_, [](const auto& written) { return written.first.who == Readers::Who::kGroup; });
  return groups < kGroupsMax ? readers : Readers{};
}

/// A segment that has room for an entry of `bytes`.
Status SegmentStore::begin_segment(std::uint64_t bytes, const Readers& readers) {
  std::uint64_t mean = bytes;
  {
    const SharedLock lock(table_);
    if (!entries_.empty()) mean = std::max<std::uint64_t>(1, stats_.entry_bytes / entries_.size());
  }
  TRY(prepare());
  const std::uint64_t usual =
      std::clamp(options_.capacity_bytes / kSegmentsOfCapacity, kSegmentBytesMin, kSegmentBytesLarge);
  const auto rows = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kSegmentRowsMax, usual / mean + usual / mean / 4 + kRowsSpare));
  const std::uint64_t least = segment_overhead(rows) + bytes;
  const std::uint64_t wanted = std::max(usual, least);
  if (wanted > kSegmentBytesMax || least > options_.capacity_bytes)
    return fail(Code::kExhausted,
                fmt::format("cache: no room for {} B of {} B", least, options_.capacity_bytes));
  ASSIGN(SegmentWriter made,
         SegmentWriter::create(folder_, options_.place, rows, wanted,
                               {.locked = options_.locks,
                                .readers = options_.own_only ? std::nullopt : std::optional(readers)}));
  SegmentWriter& writer = written_.emplace(readers, Written{std::move(made), nullptr}).first->second.writer;
  struct stat made_facts;
  if (::stat(writer.path().c_str(), &made_facts) == 0) user_ = made_facts.st_uid;
  auto room = make_room(wanted);
  Status fits = room ? Status() : std::unexpected(room.error());
  if (fits && *room < least)
    fits =
        fail(Code::kExhausted, fmt::format("cache: the capacity of {} B is used", options_.capacity_bytes));
  if (fits) fits = writer.shrink(*room);
  auto reader = fits ? SegmentReader::open(writer.path(), options_.place) : std::unexpected(fits.error());
  if (!reader) {
    end_segment(readers);  // it is empty, and removed
    return std::unexpected(std::move(reader.error()));
  }
  written_.at(readers).reader = *reader;
  segments_[file_name(writer)] = {.reader = std::move(*reader), .own = true, .seen = true};
  return {};
}

void SegmentStore::end_segment(const Readers& readers) {
  written_.at(readers).writer.seal();
  written_.erase(readers);
}

Status SegmentStore::append(Hash128 identity, std::span<const std::byte> payload, const Readers& readers) {
  if (payload.empty() || payload.size() > kSegmentEntryBytesMax || find(identity)) return {};
  const MutexLock lock(working_);
  const Readers whose = whose_file(readers);
  if (const auto full = written_.find(whose);
      full != written_.end() && !full->second.writer.has_room(payload.size()))
    end_segment(whose);
  if (!written_.contains(whose)) TRY(begin_segment(payload.size(), whose));
  Written& written = written_.at(whose);
  const auto row = written.writer.append(identity, payload);
  if (!row) {
    end_segment(whose);
    return std::unexpected(row.error());
  }
  note(written.reader, std::span(&*row, 1));
  const ExclusiveLock counting(table_);
  ++stats_.written;
  stats_.written_bytes += payload.size();
  return {};
}

void SegmentStore::seal() {
  const MutexLock lock(working_);
  for (auto& [readers, written] : written_) written.writer.seal();
  written_.clear();
}

SegmentStoreStats SegmentStore::stats() const {
  const SharedLock lock(table_);
  SegmentStoreStats stats = stats_;
  stats.entries = entries_.size();
  return stats;
}

}  // namespace carya::io
