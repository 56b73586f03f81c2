#include "io/manifest/manifest_builder.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/error.h"

namespace carya::io {
namespace {

constexpr std::size_t kHashedAtOnce = 4096;

}  // namespace

void ManifestBuilder::reserve(std::uint64_t records, std::uint64_t names_bytes) {
  names_.reserve(names_bytes + records);
  name_at_.reserve(records + 1);
  bytes_.reserve(records);
  label_.reserve(records);
  if (!containers.empty()) {
    offset_.reserve(records);
    container_.reserve(records);
  }
  if (keep_times) mtime_.reserve(records);
}

void ManifestBuilder::add(const Record& record) {
  CHECK(!record.name.empty() && record.bytes < kRecordBytesMax && record.offset < kRecordBytesMax);
  names_.append(record.name);
  names_.push_back('\0');
  name_at_.push_back(names_.size());
  bytes_.push_back(record.bytes);
  label_.push_back(record.label);
  any_label_ = any_label_ || record.label != -1;
  if (keep_times) mtime_.push_back(record.mtime_ns);
  if (!containers.empty()) {
    offset_.push_back(record.offset);
    container_.push_back(record.container);
  }
}

void ManifestBuilder::add_source(std::string path, const SourceStamp& stamp) {
  source_paths_.push_back(std::move(path));
  stamps_.push_back(stamp);
}

Hash128 ManifestBuilder::fingerprint() const {
  Hasher128 hasher;
  hasher.update(count());
  hasher.update(static_cast<std::uint64_t>(containers.size()));
  for (const std::string& container : containers) hasher.update(std::string_view(container));
  // In blocks: the hasher's own cost of a call is that of hashing a hundred bytes.
  std::vector<std::byte> block;
  block.reserve(kHashedAtOnce);
  const auto put = [&](std::span<const std::byte> bytes) {
    if (block.size() + bytes.size() > kHashedAtOnce) {
      hasher.update(std::span<const std::byte>(block));
      block.clear();
    }
    if (bytes.size() > kHashedAtOnce)
      hasher.update(bytes);
    else
      block.insert(block.end(), bytes.begin(), bytes.end());
  };
  for (std::uint64_t i = 0; i < count(); ++i) {
    const std::uint64_t length = name_at_[i + 1] - name_at_[i] - 1;
    const bool member = !containers.empty();
    const std::array<std::uint64_t, 5> numbers = {length, bytes_[i], static_cast<std::uint64_t>(label_[i]),
                                                  member ? offset_[i] : 0,
                                                  member ? container_[i] : ~std::uint64_t{0}};
    put(std::as_bytes(std::span(numbers)));
    put(std::as_bytes(std::span(names_.data() + name_at_[i], length)));
  }
  hasher.update(std::span<const std::byte>(block));
  return hasher.digest();
}

std::vector<std::byte> ManifestBuilder::build() {
  std::string strings;
  const auto add_string = [&strings](const std::string& text) {
    strings.append(text.c_str(), text.size() + 1);
  };
  add_string(root);
  for (const auto* list : {&class_names, &containers, &source_paths_, &skipped_examples}) {
    std::for_each(list->begin(), list->end(), add_string);
  }
  ManifestHeader header{};
  std::memcpy(header.magic, kManifestMagic, sizeof header.magic);
  header.version = kManifestVersion;
  header.flags = (any_label_ ? kHasLabels : 0) | (keep_times ? kHasTimes : 0) |
                 (containers.empty() ? 0 : kHasContainers) | (pins ? kHasPins : 0);
  header.record_count = count();
  const Hash128 hash = fingerprint();
  header.fingerprint_high = hash.high;
  header.fingerprint_low = hash.low;
  header.skipped_count = skipped_count;
  header.class_count = class_names.size();
  header.container_count = containers.size();
  header.source_count = stamps_.size();
  header.example_count = skipped_examples.size();
  header.names_bytes = names_.size();
  header.strings_bytes = strings.size();
  const auto sections = manifest_sections(header);
  CHECK(sections);
  header.file_bytes = sections->end;

  std::vector<std::byte> image(sections->end);
  const auto put = [&image](std::uint64_t at, const auto& column) {
    const auto bytes = std::as_bytes(std::span(column));
    if (!bytes.empty()) std::memcpy(image.data() + at, bytes.data(), bytes.size());
  };
  put(0, std::span(&header, 1));
  put(sections->name_at, name_at_);
  put(sections->bytes, bytes_);
  if (any_label_) put(sections->label, label_);
  put(sections->mtime, mtime_);
  put(sections->offset, offset_);
  put(sections->container, container_);
  put(sections->sources, stamps_);
  put(sections->names, names_);
  put(sections->strings, strings);
  seal_manifest(image);
  *this = ManifestBuilder();
  return image;
}

void seal_manifest(std::span<std::byte> image) {
  CHECK(image.size() >= sizeof(ManifestHeader));
  const std::uint64_t body = hash64(image.subspan(sizeof(ManifestHeader)));
  std::memcpy(image.data() + offsetof(ManifestHeader, body_hash), &body, 8);
  const std::uint64_t head = hash64(image.first(offsetof(ManifestHeader, header_hash)));
  std::memcpy(image.data() + offsetof(ManifestHeader, header_hash), &head, 8);
}

}  // namespace carya::io
