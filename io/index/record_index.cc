#include "io/index/record_index.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/hash.h"

namespace carya::io {
namespace {

using Kind = RecordField::Kind;

constexpr char kMagic[8] = {'C', 'A', 'R', 'Y', 'A', 'R', 'I', 'X'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kDescriptionMax = 1024;
constexpr std::uint64_t kExpectedMax = 1 << 20;  // records, of 16 B each per field

// FORMAT.md describes it.
struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t field_count;
  std::uint64_t image_bytes;
  std::uint64_t spec_high;
  std::uint64_t spec_low;
  std::uint64_t file_bytes;
  std::int64_t mtime_ns;
  std::uint64_t record_count;
  std::uint64_t fault_count;
  std::uint64_t description_bytes;
  std::uint64_t reserved;
  std::uint64_t body_hash;
  std::uint64_t header_hash;
};
static_assert(sizeof(Header) == 104 && std::is_trivially_copyable_v<Header>);

std::unexpected<Error> corrupt(const std::string& what) {
  return carya::fail(Code::kCorrupt, "record index: " + what);
}

Result<Header> checked_header(std::span<const std::byte> image) {
  Header header;
  if (image.size() < sizeof header) return corrupt("shorter than its header");
  std::memcpy(&header, image.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return corrupt("not a record index");
  if (header.version != kVersion) return corrupt("version " + std::to_string(header.version));
  if (header.header_hash != hash64(image.first(offsetof(Header, header_hash)))) return corrupt("header hash");
  if (header.image_bytes != image.size()) return corrupt("size is not what the header says");
  if (header.body_hash != hash64(image.subspan(sizeof header))) return corrupt("body hash");
  return header;
}

// Sections one after the other.
class Sections {
 public:
  explicit Sections(std::span<const std::byte> left) : left_(left) {}

  template <typename T>
  bool take(std::uint64_t count, std::vector<T>* into) {
    const auto bytes = checked_mul<std::uint64_t>(count, sizeof(T));
    if (!bytes || *bytes > left_.size()) return false;
    into->resize(count);
    if (count != 0) std::memcpy(into->data(), left_.data(), *bytes);
    left_ = left_.subspan(*bytes);
    return true;
  }
  bool take(std::uint64_t count, std::string* into) {
    if (count > left_.size()) return false;
    into->assign(reinterpret_cast<const char*>(left_.data()), count);
    left_ = left_.subspan(count);
    return true;
  }
  bool at_end() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
};

}  // namespace

RecordIndex::RecordIndex(const RecordSpec& spec)
    : spec_(spec),
      row_bytes_(spec.fields.size()),
      ranges_(spec.fields.size()),
      columns_(spec.fields.size()),
      found_(spec.fields.size()) {
  for (std::size_t f = 0; f < spec.fields.size(); ++f) {
    row_bytes_[f] = spec.fields[f].row_bytes();
    record_column_bytes_ += row_bytes_[f];
    labelled_ = labelled_ || spec.fields[f].kind == Kind::kLabel;
  }
}

void RecordIndex::expect(std::uint64_t records) {
  records = std::min(records, kExpectedMax);
  places_.reserve(records);
  if (labelled_) labels_.reserve(records);
  for (std::size_t f = 0; f < spec_.fields.size(); ++f)
    if (spec_.fields[f].kind == Kind::kBytes) ranges_[f].reserve(records);
}

Status RecordIndex::begin(Range place) {
  column_bytes_ += record_column_bytes_;
  if (column_bytes_ > kColumnBytesMax)
    return carya::fail(Code::kExhausted, "tensors: " + std::to_string(record_column_bytes_) +
                                             " B for each of more than " + std::to_string(count()) +
                                             " records are kept in memory, at most " +
                                             std::to_string(kColumnBytesMax) +
                                             " B; leave large fields out, or store them as encoded images");
  places_.push_back(place);
  if (labelled_) labels_.push_back(-1);
  for (std::size_t f = 0; f < spec_.fields.size(); ++f) {
    if (spec_.fields[f].kind == Kind::kBytes) ranges_[f].push_back({place.offset, 0});
    if (row_bytes_[f] != 0) columns_[f].resize(columns_[f].size() + row_bytes_[f]);
  }
  return {};
}

void RecordIndex::fail(Fault what, std::size_t field, std::uint64_t got) {
  faults_.push_back(
      {.record = count() - 1, .what = what, .field = static_cast<std::uint32_t>(field), .got = got});
  if (labelled_) labels_.back() = -1;
  for (std::size_t f = 0; f < spec_.fields.size(); ++f) {
    if (spec_.fields[f].kind == Kind::kBytes) ranges_[f].back() = {places_.back().offset, 0};
    if (row_bytes_[f] != 0) std::ranges::fill(row(f), std::byte{});
  }
}

void RecordIndex::describe(std::string text) {
  text.resize(std::min(text.size(), kDescriptionMax));
  description_ = std::move(text);
}

std::vector<std::byte> RecordIndex::store(std::uint64_t file_bytes, std::int64_t mtime_ns) const {
  const Hash128 spec = spec_.fingerprint();
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.field_count = static_cast<std::uint32_t>(spec_.fields.size());
  header.spec_high = spec.high;
  header.spec_low = spec.low;
  header.file_bytes = file_bytes;
  header.mtime_ns = mtime_ns;
  header.record_count = count();
  header.fault_count = faults_.size();
  header.description_bytes = description_.size();
  std::vector<std::byte> image(sizeof header);
  const auto put = [&image](const auto& section) {
    const auto bytes = std::as_bytes(std::span(section));
    image.insert(image.end(), bytes.begin(), bytes.end());
  };
  put(places_);
  put(labels_);
  for (const auto& ranges : ranges_) put(ranges);
  put(faults_);
  for (const auto& column : columns_) put(column);
  put(found_);
  put(description_);
  header.image_bytes = image.size();
  header.body_hash = hash64(std::span(image).subspan(sizeof header));
  std::memcpy(image.data(), &header, sizeof header);
  header.header_hash = hash64(std::span(image).first(offsetof(Header, header_hash)));
  std::memcpy(image.data(), &header, sizeof header);
  return image;
}

Result<RecordIndex> RecordIndex::load(std::span<const std::byte> image, const RecordSpec& spec,
                                      std::uint64_t file_bytes, std::int64_t mtime_ns) {
  ASSIGN(const Header header, checked_header(image));
  const Hash128 hash = spec.fingerprint();
  if (header.field_count != spec.fields.size() || header.spec_high != hash.high ||
      header.spec_low != hash.low)
    return corrupt("of other fields");
  if (header.file_bytes != file_bytes || header.mtime_ns != mtime_ns)
    return corrupt("of another state of the file");
  RecordIndex index(spec);
  const std::uint64_t n = header.record_count;
  Sections sections(image.subspan(sizeof header));
  bool whole = sections.take(n, &index.places_) && sections.take(index.labelled_ ? n : 0, &index.labels_);
  for (std::size_t f = 0; whole && f < spec.fields.size(); ++f)
    whole = sections.take(spec.fields[f].kind == Kind::kBytes ? n : 0, &index.ranges_[f]);
  whole = whole && sections.take(header.fault_count, &index.faults_);
  for (std::size_t f = 0; whole && f < spec.fields.size(); ++f) {
    const auto bytes = checked_mul(n, index.row_bytes_[f]);
    whole = bytes && sections.take(*bytes, &index.columns_[f]);
  }
  whole = whole && sections.take(spec.fields.size(), &index.found_) &&
          sections.take(header.description_bytes, &index.description_) && sections.at_end();
  if (!whole) return corrupt("sections do not fill it");
  TRY(index.check(file_bytes));
  return index;
}

Status RecordIndex::check(std::uint64_t file_bytes) const {
  const auto outside = [file_bytes](const Range& range) {
    return range.offset > file_bytes || range.bytes > file_bytes - range.offset;
  };
  if (std::ranges::any_of(places_, outside)) return corrupt("a record outside of the file");
  for (const auto& ranges : ranges_)
    if (std::ranges::any_of(ranges, outside)) return corrupt("a field outside of the file");
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const RecordFault& fault = faults_[i];
    const auto what = static_cast<std::uint32_t>(fault.what);
    if (fault.record >= count() || (i > 0 && fault.record <= faults_[i - 1].record) || what == 0 ||
        what > kFaultMax || (fault.field >= spec_.fields.size() && fault.field != 0))
      return corrupt("a broken record that is none");
  }
  return {};
}

Result<std::uint64_t> check_stored_index(std::span<const std::byte> image) {
  ASSIGN(const Header header, checked_header(image));
  return header.record_count;
}

}  // namespace carya::io
