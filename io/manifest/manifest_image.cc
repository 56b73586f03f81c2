#include "io/manifest/manifest_image.h"

#include <fmt/core.h>
#include <algorithm>

namespace carya::io {
namespace {

std::unexpected<Error> corrupt(const std::string& what) {
  return fail(Code::kCorrupt, "manifest: " + what);
}

template <typename T>
std::span<const T> column(std::span<const std::byte> image, std::uint64_t at, std::uint64_t count) {
  return {reinterpret_cast<const T*>(image.data() + at), count};
}

}  // namespace

Result<std::shared_ptr<const ManifestImage>> ManifestImage::open(std::span<const std::byte> bytes,
                                                                 std::shared_ptr<const void> owner) {
  CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % 8 == 0);
  std::shared_ptr<ManifestImage> manifest(new ManifestImage);
  ManifestImage& m = *manifest;
  m.image_ = bytes;
  m.owner_ = std::move(owner);
  TRY(m.check_header());
  const std::uint64_t n = m.header_.record_count;
  const auto when = [&](std::uint32_t flag) { return (m.header_.flags & flag) != 0 ? n : 0; };
  m.name_at_ = column<std::uint64_t>(bytes, m.sections_.name_at, n + 1);
  m.bytes_ = column<std::uint64_t>(bytes, m.sections_.bytes, n);
  m.label_ = column<std::int64_t>(bytes, m.sections_.label, when(kHasLabels));
  m.mtime_ = column<std::int64_t>(bytes, m.sections_.mtime, when(kHasTimes));
  m.offset_ = column<std::uint64_t>(bytes, m.sections_.offset, when(kHasContainers));
  m.container_ = column<std::uint32_t>(bytes, m.sections_.container, when(kHasContainers));
  m.stamps_ = column<SourceStamp>(bytes, m.sections_.sources, m.header_.source_count);
  m.names_ = reinterpret_cast<const char*>(bytes.data() + m.sections_.names);
  TRY(m.check_records());
  TRY(m.take_strings());
  return std::shared_ptr<const ManifestImage>(std::move(manifest));
}

std::shared_ptr<const ManifestImage> ManifestImage::from(std::vector<std::byte> image) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(image));
  const std::span<const std::byte> bytes(*owner);
  auto opened = open(bytes, std::move(owner));
  CHECK(opened);  // what the builder laid out is right
  return *opened;
}

Status ManifestImage::check_header() {
  if (image_.size() < sizeof header_) return corrupt("shorter than its header");
  std::memcpy(&header_, image_.data(), sizeof header_);
  if (std::memcmp(header_.magic, kManifestMagic, sizeof header_.magic) != 0) return corrupt("not a manifest");
  if (header_.version != kManifestVersion) return corrupt(fmt::format("version {}", header_.version));
  if (header_.header_hash != hash64(image_.first(offsetof(ManifestHeader, header_hash))))
    return corrupt("header hash");
  if (header_.file_bytes != image_.size()) return corrupt("size is not what the header says");
  if ((header_.flags & ~kFlagsKnown) != 0) return corrupt("unknown flags");
  const auto sections = manifest_sections(header_);
  if (!sections || sections->end != image_.size()) return corrupt("sections do not fill the file");
  sections_ = *sections;
  const bool members = (header_.flags & kHasContainers) != 0;
  if (members != (header_.container_count != 0)) return corrupt("containers");
  if (header_.body_hash != hash64(image_.subspan(sizeof header_))) return corrupt("body hash");
  return {};
}

Status ManifestImage::check_records() const {
  const std::uint64_t n = header_.record_count;
  if (name_at_[0] != 0 || name_at_[n] != header_.names_bytes)
    return corrupt("names do not fill their section");
  for (std::uint64_t i = 0; i < n; ++i) {
    // Rising and ending at the section's end bounds every name; the shortest is one byte and its NUL.
    if (name_at_[i + 1] < name_at_[i] || name_at_[i + 1] - name_at_[i] < 2) return corrupt("order of names");
    if (name_at_[i + 1] > header_.names_bytes) return corrupt("a name is outside its section");
    if (names_[name_at_[i + 1] - 1] != '\0') return corrupt("a name without end");
  }
  if (static_cast<std::uint64_t>(std::count(names_, names_ + header_.names_bytes, '\0')) != n) {
    return corrupt("a name holds a NUL");
  }
  const auto too_large = [](std::uint64_t value) { return value >= kRecordBytesMax; };
  if (std::ranges::any_of(bytes_, too_large) || std::ranges::any_of(offset_, too_large))
    return corrupt("a size");
  if (std::ranges::any_of(container_, [this](std::uint32_t c) { return c >= header_.container_count; })) {
    return corrupt("a container that is not there");
  }
  const std::uint64_t classes = header_.class_count;
  if (classes != 0) {
    if (label_.empty() && n != 0) return corrupt("classes without labels");
    const auto outside = [classes](std::int64_t label) {
      return static_cast<std::uint64_t>(label) >= classes;
    };
    if (std::ranges::any_of(label_, outside)) return corrupt("a label outside the classes");
  }
  return {};
}

Status ManifestImage::take_strings() {
  const char* at = reinterpret_cast<const char*>(image_.data() + sections_.strings);
  const char* const end = at + header_.strings_bytes;
  if (at == end || end[-1] != '\0') return corrupt("strings without end");
  const auto take = [&at, end](std::string* text) {
    if (at == end) return false;
    *text = at;
    at += text->size() + 1;
    return true;
  };
  const auto take_list = [&](std::vector<std::string>* list, std::uint64_t count) {
    if (count > static_cast<std::uint64_t>(end - at)) return false;
    list->resize(count);
    return std::ranges::all_of(*list, [&](std::string& text) { return take(&text); });
  };
  const bool complete = take(&root_) && take_list(&class_names_, header_.class_count) &&
                        take_list(&containers_, header_.container_count) &&
                        take_list(&source_paths_, header_.source_count) &&
                        take_list(&skipped_examples_, header_.example_count);
  if (!complete || at != end) return corrupt("count of strings");
  has_pins_ = (header_.flags & kHasPins) != 0;
  const std::uint64_t pinned = containers_.empty() ? header_.record_count : containers_.size();
  if (has_pins_ && source_paths_.size() != pinned) return corrupt("count of pins");
  return {};
}

std::string_view ManifestImage::name(std::uint64_t index) const {
  return {names_ + name_at_[index], name_at_[index + 1] - name_at_[index] - 1};
}

RecordAddress ManifestImage::record(std::uint64_t index) const {
  CHECK(index < count());
  RecordAddress address{};
  address.bytes = bytes_[index];
  address.label = label_.empty() ? -1 : label_[index];
  if (container_.empty()) {
    address.path = name(index);
    address.container = UINT32_MAX;
  } else {
    address.container = container_[index];
    address.path = containers_[address.container];
    address.member = name(index);
    address.offset = offset_[index];
  }
  return address;
}

const char* ManifestImage::path_c_str(std::uint64_t index) const {
  CHECK(index < count());
  return container_.empty() ? names_ + name_at_[index] : containers_[container_[index]].c_str();
}

std::span<const SourceStamp> ManifestImage::container_stamps() const {
  return stamps_.size() == containers_.size() ? stamps_ : std::span<const SourceStamp>();
}

std::optional<FileVersion> ManifestImage::file_version(std::uint64_t index) const {
  CHECK(index < count());
  if (container_.empty())
    return mtime_.empty() ? std::nullopt : std::optional(FileVersion{bytes_[index], mtime_[index]});
  const auto stamps = container_stamps();
  if (stamps.empty()) return std::nullopt;
  const SourceStamp& stamp = stamps[container_[index]];
  return stamp.version();
}

const char* ManifestImage::pin_c_str(std::uint64_t index) const {
  CHECK(index < count());
  if (!has_pins_) return nullptr;
  return source_paths_[container_.empty() ? index : container_[index]].c_str();
}

std::uint64_t ManifestImage::object_bytes(std::uint64_t index) const {
  CHECK(index < count() && has_pins_);
  return stamps_[container_.empty() ? index : container_[index]].bytes;
}

std::int64_t ManifestImage::mtime_ns(std::uint64_t index) const {
  CHECK(index < mtime_.size());
  return mtime_[index];
}

}  // namespace carya::io
