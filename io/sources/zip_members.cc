#include "io/sources/zip_members.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/escape.h"
#include "io/manifest/manifest_layout.h"

namespace carya::io {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                        kLocatorBytes = 20;
constexpr std::uint64_t kCommentMax = 65535;
constexpr std::uint16_t kIn64 = 0xffff;
constexpr std::uint32_t kIn64Long = 0xffffffff;

std::uint16_t u16(Bytes from, std::size_t at) {
  return load_little<std::uint16_t>(from.data() + at);
}
std::uint32_t u32(Bytes from, std::size_t at) {
  return load_little<std::uint32_t>(from.data() + at);
}
std::uint64_t u64(Bytes from, std::size_t at) {
  return load_little<std::uint64_t>(from.data() + at);
}
std::string_view text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Zip {
 public:
  Zip(const std::string& subject, FileWindow& file) : subject_(subject), file_(file) {}

  Result<std::vector<TarMember>> run() {
    TRY(find_directory());
    for (std::uint64_t at = directory_; at < directory_end_;) TRY(take_entry(&at));
    for (TarMember& member : members_) TRY(find_data(member));
    TRY(check_overlaps());
    return std::move(members_);
  }

 private:
  std::unexpected<Error> corrupt(const std::string& what) const {
    return fail(Code::kCorrupt,
                "zip " + subject_ + ": " + what + "; the zip is damaged: copy or make it again");
  }
  std::unexpected<Error> unsupported(const std::string& what, const std::string& cure) const {
    return fail(Code::kUnsupported, "zip " + subject_ + ": " + what + "; " + cure);
  }

  /// The end record stands at the end, before a comment of at most 64 KiB.
  Result<std::uint64_t> find_end() {
    const std::uint64_t size = file_.file_bytes();
    const std::uint64_t begin = size - std::min(size, kEndBytes + kCommentMax);
    ASSIGN(const Bytes tail, file_.at(begin, size - begin));
    for (std::uint64_t at = tail.size() < kEndBytes ? 0 : tail.size() - kEndBytes + 1; at-- > 0;)
      if (u32(tail, at) == kEnd && at + kEndBytes + u16(tail, at + 20) == tail.size()) return begin + at;
    return corrupt("no directory at its end");
  }

  Status find_directory() {
    ASSIGN(const std::uint64_t end, find_end());
    ASSIGN(const Bytes record, file_.at(end, kEndBytes));
    if (u16(record, 4) != 0 && u16(record, 4) != kIn64)
      return unsupported("one of several disks", "give an archive of one file");
    std::uint64_t bytes = u32(record, 12), offset = u32(record, 16);
    directory_end_ = end;
    if (u16(record, 10) == kIn64 || bytes == kIn64Long || offset == kIn64Long) {
      ASSIGN(const bool found, find_end64(end, &bytes, &offset));
      if (!found && (bytes == kIn64Long || offset == kIn64Long)) return corrupt("no zip64 directory");
    }
    if (bytes > directory_end_ || offset != directory_end_ - bytes)
      return corrupt("its directory lies elsewhere than it says");
    directory_ = offset;
    return {};
  }

  Result<bool> find_end64(std::uint64_t end, std::uint64_t* bytes, std::uint64_t* offset) {
    if (end < kLocatorBytes + kEnd64Bytes) return false;
    ASSIGN(const Bytes locator, file_.at(end - kLocatorBytes, kLocatorBytes));
    if (u32(locator, 0) != kLocator64) return false;
    const std::uint64_t at = u64(locator, 8);
    if (at > end - kLocatorBytes - kEnd64Bytes) return corrupt("a zip64 directory outside of it");
    ASSIGN(const Bytes record, file_.at(at, kEnd64Bytes));
    if (u32(record, 0) != kEnd64) return corrupt("no zip64 directory where it should be");
    *bytes = u64(record, 40);
    *offset = u64(record, 48);
    directory_end_ = at;
    return true;
  }

  /// Sizes and offset that do not fit 32 bits stand in the extra field with the number 1, in this order.
  static bool take_zip64(Bytes extra, std::uint64_t* whole, std::uint64_t* packed, std::uint64_t* offset) {
    while (extra.size() >= 4) {
      const std::uint64_t bytes = u16(extra, 2);
      if (bytes > extra.size() - 4) return false;
      Bytes field = extra.subspan(4, bytes);
      const bool is_zip64 = u16(extra, 0) == 1;
      extra = extra.subspan(4 + bytes);
      if (!is_zip64) continue;
      for (std::uint64_t* number : {whole, packed, offset}) {
        if (*number != kIn64Long) continue;
        if (field.size() < 8) return false;
        *number = u64(field, 0);
        field = field.subspan(8);
      }
      return true;
    }
    return *whole != kIn64Long && *packed != kIn64Long && *offset != kIn64Long;
  }

  Status take_entry(std::uint64_t* at) {
    if (directory_end_ - *at < kCentralBytes) return corrupt("its directory is cut off");
    ASSIGN(const Bytes head, file_.at(*at, kCentralBytes));
    if (u32(head, 0) != kCentral) return corrupt("its directory holds something else");
    const std::uint16_t flags = u16(head, 8), method = u16(head, 10);
    std::uint64_t packed = u32(head, 20), whole = u32(head, 24), offset = u32(head, 42);
    const std::uint64_t name_bytes = u16(head, 28), extra_bytes = u16(head, 30);
    const std::uint64_t entry = kCentralBytes + name_bytes + extra_bytes + u16(head, 32);
    if (entry > directory_end_ - *at) return corrupt("its directory is cut off");
    ASSIGN(const Bytes rest, file_.at(*at + kCentralBytes, name_bytes + extra_bytes));
    *at += entry;
    TarMember member{.name = std::string(text(rest.first(name_bytes)))};
    const std::string shown = escaped(member.name.substr(0, 200));
    if (member.name.empty() || member.name.find('\0') != std::string::npos)
      return corrupt("a member whose name is empty or holds a NUL");
    if (!take_zip64(rest.subspan(name_bytes), &whole, &packed, &offset))
      return corrupt("the sizes of " + shown + " are cut off");
    if (member.name.ends_with('/')) return {};
    if ((flags & 1) != 0)
      return unsupported(shown + " is encrypted", "unpack it, and pack it without a password");
    if (method != 0)
      return unsupported(shown + " is compressed, so members cannot be read where they lie",
                         "pack them as they are: zip -0, or zipfile.ZIP_STORED");
    if (packed != whole) return corrupt(shown + " is stored with two sizes");
    if (offset > directory_ || whole > directory_) return corrupt(shown + " lies outside of it");
    member.offset = offset;  // of its header, until find_data()
    member.bytes = whole;
    members_.push_back(std::move(member));
    return {};
  }

  /// The member's own header has fields of other lengths than the directory's.
  Status find_data(TarMember& member) {
    const std::uint64_t asked = kLocalBytes + member.name.size();
    const auto outside = [&] { return corrupt(escaped(member.name.substr(0, 200)) + " lies outside of it"); };
    if (asked > directory_ - member.offset) return outside();
    ASSIGN(const Bytes head, file_.at(member.offset, asked));
    if (u32(head, 0) != kLocal || u16(head, 26) != member.name.size() ||
        text(head.subspan(kLocalBytes)) != member.name)
      return corrupt(escaped(member.name.substr(0, 200)) + " is called otherwise in its own header");
    const std::uint64_t data = asked + u16(head, 28);
    if (data > directory_ - member.offset || member.bytes > directory_ - member.offset - data)
      return outside();
    spans_.emplace_back(member.offset, member.offset + data + member.bytes);
    member.offset += data;
    return {};
  }

  Status check_overlaps() {
    if (!std::ranges::is_sorted(spans_)) std::ranges::sort(spans_);
    for (std::size_t i = 1; i < spans_.size(); ++i)
      if (spans_[i].first < spans_[i - 1].second) return corrupt("members that lie over each other");
    return {};
  }

  const std::string& subject_;
  FileWindow& file_;
  std::uint64_t directory_ = 0, directory_end_ = 0;
  std::vector<TarMember> members_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans_;
};

}  // namespace

bool begins_as_zip(FileWindow& file) {
  if (file.file_bytes() < kEndBytes) return false;
  const auto head = file.at(0, 4);
  return head && (u32(*head, 0) == kLocal || u32(*head, 0) == kEnd);
}

Result<std::vector<TarMember>> zip_members(const std::string& subject, FileWindow& file) {
  return Zip(subject, file).run();
}

}  // namespace carya::io
