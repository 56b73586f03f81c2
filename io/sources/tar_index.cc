#include "io/sources/tar_index.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "io/files/manifest_file.h"
#include "io/index/file_window.h"
#include "io/manifest/manifest_builder.h"
#include "io/sources/tar_scanner.h"
#include "io/sources/zip_members.h"

namespace carya::io {
namespace {

constexpr std::uint64_t kNumberBytesMax = 32;  // no decimal integer of 64 bits with its blanks is longer

/// Reads of headers and small members, a page at a time: a small member lies in the page of its header.
class PageReader {
 public:
  PageReader(const FileWindow::ReadAt& read, std::uint64_t file_bytes)
      : read_(read), file_bytes_(file_bytes) {}

  Status read(std::uint64_t offset, std::span<std::byte> out) {
    while (!out.empty()) {
      if (offset < start_ || offset >= start_ + filled_) TRY(fill(offset));
      const std::size_t at = offset - start_;
      const std::size_t take = std::min<std::size_t>(out.size(), filled_ - at);
      std::memcpy(out.data(), page_.data() + at, take);
      out = out.subspan(take);
      offset += take;
    }
    return {};
  }

 private:
  Status fill(std::uint64_t offset) {
    CHECK(offset < file_bytes_);
    start_ = offset & ~std::uint64_t{page_.size() - 1};
    const std::uint64_t wanted = std::min<std::uint64_t>(page_.size(), file_bytes_ - start_);
    filled_ = 0;  // until it was read
    TRY(read_(start_, std::span(page_).first(wanted)));
    filled_ = wanted;
    return {};
  }

  const FileWindow::ReadAt& read_;
  const std::uint64_t file_bytes_;
  std::array<std::byte, 4096> page_;
  std::uint64_t start_ = 0;
  std::uint64_t filled_ = 0;
};

std::int64_t parse_number(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return kNoNumber;
  text = text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : kNoNumber;
}

Result<std::vector<std::byte>> scan(const std::string& tar, const SourceFile& file,
                                    ListingProgress& progress) {
  ManifestBuilder builder;
  builder.containers = {tar};
  builder.add_source(tar, file.stamp);
  PageReader pages(file.read, file.stamp.bytes);
  const auto read = [&pages](std::uint64_t offset, std::span<std::byte> out) {
    return pages.read(offset, out);
  };
  std::uint64_t seen = 0;
  const auto add = [&](const TarMember& member) -> Status {
    std::int64_t number = kNoNumber;
    if (member.bytes != 0 && member.bytes <= kNumberBytesMax) {
      std::array<char, kNumberBytesMax> text;
      TRY(pages.read(member.offset, std::as_writable_bytes(std::span(text)).first(member.bytes)));
      number = parse_number({text.data(), member.bytes});
    }
    builder.add({.name = member.name, .bytes = member.bytes, .label = number, .offset = member.offset});
    if (++seen % kTellEvery == 0 && !progress.add(kTellEvery)) return listing_stopped();
    return {};
  };
  FileWindow window(file.stamp.bytes, file.read);
  if (begins_as_zip(window)) {
    ASSIGN(const auto members, zip_members(tar, window));
    for (const TarMember& member : members) TRY(add(member));
    return builder.build();
  }
  TarScanner scanner(tar, file.stamp.bytes, read);
  TarMember member;
  for (;;) {
    ASSIGN(const bool more, scanner.next(&member));
    if (!more) break;
    TRY(add(member));
  }
  builder.skipped_count = scanner.ends_with_mark() ? 0 : 1;
  return builder.build();
}

bool same_tar(const ManifestImage& index, const SourceStamp& stamp) {
  if (index.source_stamps().size() != 1 || index.containers().size() != 1) return false;
  const SourceStamp& kept = index.source_stamps()[0];
  if (kept.bytes != stamp.bytes || kept.mtime_ns != stamp.mtime_ns) return false;
  for (std::uint64_t i = 0; i < index.count(); ++i) {
    const RecordAddress member = index.record(i);
    if (member.offset > stamp.bytes || member.bytes > stamp.bytes - member.offset) return false;
  }
  return true;
}

}  // namespace

Result<TarIndex> tar_index(const std::string& tar, const SourcePlace& place, const std::string& cache_dir,
                           ListingProgress& progress) {
  ASSIGN(const SourceFile file, place.open_file(tar, "tars", progress));
  // Beside an object there is no place for an index.
  std::string kept = place.is_store() ? "" : tar + ".carya-index";
  if (!cache_dir.empty()) kept = manifest_path(cache_dir, "whole-tar", file.identity);
  if (!kept.empty())
    if (const auto loaded = load_manifest(kept); loaded && same_tar(**loaded, file.stamp))
      return TarIndex{*loaded, file.pin};

  ASSIGN(std::vector<std::byte> image, scan(tar, file, progress));
  auto index = ManifestImage::from(std::move(image));
  if (file.settled && !kept.empty()) static_cast<void>(store_manifest(kept, index->bytes(), file.readers));
  return TarIndex{std::move(index), file.pin};
}

}  // namespace carya::io
