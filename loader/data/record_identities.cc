#include "loader/data/record_identities.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <utility>

#include "io/credentials/sigv4.h"
#include "io/files/record_file.h"
#include "io/http/answer.h"
#include "io/http/store_url.h"

namespace carya::loader {
namespace {

using Kind = transforms::SourceField::Kind;

/// An array's rows are named by their bytes, which is for small ones.
constexpr std::uint64_t kRowBytesMax = 4096;
/// A change within one tick of a file system's clock shows the same time; where times are whole seconds, the tick is.
constexpr std::int64_t kTickNs = 20'000'000, kCoarseTickNs = 2'000'000'000, kSecondNs = 1'000'000'000;

std::int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kSecondNs + now.tv_nsec;
}

/// Whether a store's version tells bytes from others for good: a weak ETag does not, nor does a time whose second had not
/// passed when the object was listed.
bool is_lasting(std::string_view pin, std::int64_t made_ns) {
  if (pin.starts_with("W/")) return false;
  const auto changed_s = io::http_date_seconds(pin);
  return !changed_s || *changed_s * kSecondNs + kCoarseTickNs <= made_ns;
}

/// SHA-256 of what Hasher128 takes, cut to its size.
struct Sha256 {
  std::string text{};

  void update(std::span<const std::byte> bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void update(std::uint64_t number) { update(std::as_bytes(std::span(&number, 1))); }
  void update(std::string_view part) {
    update(static_cast<std::uint64_t>(part.size()));
    text += part;
  }
  Hash128 digest() const { return io::sha256_half(text); }
};

/// The folder as it really is, since a link may lead elsewhere the next time.
std::string real_root(const std::string& root) {
  if (root.find("://") != std::string::npos) return root;
  std::error_code failed;
  const auto real = std::filesystem::canonical(root.empty() ? "." : root, failed);
  return failed ? "" : real.string();
}

}  // namespace

RecordIdentities::RecordIdentities(std::shared_ptr<const Dataset> dataset,
                                   const std::shared_ptr<io::StoreAccess>& lent)
    : dataset_(std::move(dataset)), made_ns_(now_ns()) {
  std::uint64_t records = 0;
  for (const Dataset::Field& field : dataset_->fields()) {
    roots_.push_back(0);
    places_.emplace_back();
    if (field.kind == Kind::kTensor && field.array.row_bytes > kRowBytesMax)
      reason_ = "records have arrays that are in memory already";
    if (field.kind != Kind::kEncoded) continue;
    records = field.manifest->count();
    const std::string root = real_root(field.manifest->root());
    roots_.back() = hash64(root);
    if (io::has_scheme(root)) {
      in_stores_ = true;
      places_.back() = std::to_string(root.size()) + ":" + root + (lent ? lent->terms().key() : "");
      const auto access = lent ? lent : io::StoreAccess::current();
      const auto place = io::parse_store_url(root, {});
      for_anybody_ = for_anybody_ && access && place && access->asks_as_anybody(*place);
    }
    if (root.empty()) reason_ = "the folder of the records has no path of its own";
    if (!field.manifest->file_version(0) && field.manifest->pin_c_str(0) == nullptr)
      reason_ = "the listing of the records keeps no times of change";
  }
  if (records == 0) reason_ = "records are in memory already";
  taken_ = std::vector<std::atomic<std::uint8_t>>(records);
}

std::optional<Hash128> RecordIdentities::of(std::uint64_t source) const {
  if (!reason_.empty()) return std::nullopt;
  if (in_stores_) {
    thread_local Sha256 hasher;
    hasher.text.clear();
    return add(source, hasher) ? std::optional(hasher.digest()) : std::nullopt;
  }
  thread_local Hasher128 hasher;
  hasher.reset();
  return add(source, hasher) ? std::optional(hasher.digest()) : std::nullopt;
}

std::vector<Hash128> RecordIdentities::some(std::size_t most) const {
  std::vector<Hash128> names;
  const std::uint64_t records = dataset_->count(), count = std::min<std::uint64_t>(most, records);
  for (std::uint64_t i = 0; i < count; ++i)
    if (const auto name = of(dataset_->source_index(records / count * i + records % count * i / count)))
      names.push_back(*name);
  return names;
}

/// All that names the record; false: its file has no version.
template <typename Hasher>
bool RecordIdentities::add(std::uint64_t source, Hasher& hasher) const {
  for (std::size_t f = 0; f < roots_.size(); ++f) {
    const Dataset::Field& field = dataset_->fields()[f];
    hasher.update(static_cast<std::uint64_t>(field.kind));
    if (field.kind == Kind::kTensor) {
      hasher.update(std::span(field.array.data + source * field.array.row_bytes, field.array.row_bytes));
      continue;
    }
    const io::RecordAddress address = field.manifest->record(source);
    if (field.kind == Kind::kLabel) {
      hasher.update(static_cast<std::uint64_t>(address.label));
      continue;
    }
    if (places_[f].empty())
      hasher.update(roots_[f]);
    else
      hasher.update(std::string_view(places_[f]));
    hasher.update(std::string_view(field.manifest->path_c_str(source)));
    hasher.update(address.member);
    hasher.update(address.offset);
    hasher.update(address.bytes);
    if (const char* const pin = field.manifest->pin_c_str(source)) {
      hasher.update(std::string_view(pin));
      continue;
    }
    const auto version = field.manifest->file_version(source);
    if (!version) return false;
    hasher.update(version->bytes);
    hasher.update(static_cast<std::uint64_t>(version->mtime_ns));
    if (const io::MarkedFiles* const marked = dataset_->marked_files(); marked != nullptr)
      hasher.update(marked->mark(address.container));
  }
  return true;
}

bool RecordIdentities::may_take(std::uint64_t source) const {
  // Relaxed: two threads that ask at the same time cost one more stat.
  if (taken_[source].load(std::memory_order_relaxed) != 0) return true;
  for (const Dataset::Field& field : dataset_->fields())
    if (field.kind == Kind::kEncoded &&
        (!io::check_as_listed(*field.manifest, source) || !io::may_read(*field.manifest, source)))
      return false;
  taken_[source].store(1, std::memory_order_relaxed);
  return true;
}

bool RecordIdentities::may_keep(std::uint64_t source) const {
  for (const Dataset::Field& field : dataset_->fields()) {
    if (field.kind != Kind::kEncoded) continue;
    if (!io::check_as_listed(*field.manifest, source)) return false;
    const auto version = field.manifest->file_version(source);
    if (!version) {  // an object of a store, whose version each read compares
      const char* const pin = field.manifest->pin_c_str(source);
      if (pin != nullptr && !is_lasting(pin, made_ns_)) return false;
      continue;
    }
    const std::int64_t tick = version->mtime_ns % kSecondNs == 0 ? kCoarseTickNs : kTickNs;
    if (version->mtime_ns + tick > made_ns_) return false;
  }
  return true;
}

io::Readers RecordIdentities::readers(std::uint64_t source) const {
  if (dataset_->has_given_fields() || !for_anybody_) return {};
  io::Readers all = io::Readers::everybody();
  for (const Dataset::Field& field : dataset_->fields())
    if (field.kind == Kind::kEncoded && field.manifest->pin_c_str(source) == nullptr)
      all = io::both(all, io::record_readers(*field.manifest, source, files_));
  return all;
}

}  // namespace carya::loader
