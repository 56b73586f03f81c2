#include "io/sources/tar_scanner.h"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/checked.h"
#include "io/manifest/manifest_layout.h"

namespace carya::io {
namespace {

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kExtensionBytesMax = 1 << 20;

/// A number of a header field: octal digits between blanks, or base-256 when the first bit is set.
std::optional<std::uint64_t> field_number(std::span<const unsigned char> field) {
  if ((field[0] & 0x80) != 0) {
    std::uint64_t value = field[0] & 0x7f;
    if (field[0] == 0xff) return std::nullopt;  // negative
    for (const unsigned char byte : field.subspan(1)) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | byte;
    }
    return value;
  }
  std::size_t i = 0;
  while (i < field.size() && field[i] == ' ') ++i;
  std::uint64_t value = 0;
  for (; i < field.size() && field[i] >= '0' && field[i] <= '7'; ++i) {
    if (value >> 60 != 0) return std::nullopt;
    value = value << 3 | static_cast<std::uint64_t>(field[i] - '0');
  }
  if (i < field.size() && field[i] != ' ' && field[i] != '\0') return std::nullopt;
  return value;
}

std::string field_text(std::span<const unsigned char> field) {
  const char* text = reinterpret_cast<const char*>(field.data());
  return std::string(text, ::strnlen(text, field.size()));
}

}  // namespace

struct TarScanner::Header {
  unsigned char raw[kBlock];

  std::span<const unsigned char> field(std::size_t at, std::size_t bytes) const { return {raw + at, bytes}; }
  bool is_zero() const {
    return std::all_of(raw, raw + kBlock, [](unsigned char c) { return c == 0; });
  }
  bool checksum_holds() const {
    const auto stored = field_number(field(148, 8));
    std::int64_t sum = 0, signed_sum = 0;  // some old programs summed signed characters
    for (std::size_t i = 0; i < kBlock; ++i) {
      const unsigned char c = i >= 148 && i < 156 ? ' ' : raw[i];
      sum += c;
      signed_sum += static_cast<signed char>(c);
    }
    return stored &&
           (static_cast<std::int64_t>(*stored) == sum || static_cast<std::int64_t>(*stored) == signed_sum);
  }
  char type() const { return static_cast<char>(raw[156]); }
  std::string name() const {
    std::string own = field_text(field(0, 100));
    const bool posix =
        std::memcmp(raw + 257, "ustar\0", 6) == 0;  // GNU's magic uses the prefix for other things
    const std::string prefix = posix ? field_text(field(345, 155)) : "";
    return prefix.empty() ? own : prefix + "/" + own;
  }
};

std::unexpected<Error> TarScanner::corrupt(const std::string& what) const {
  return fail(Code::kCorrupt,
              fmt::format("tar {} @{}: {}; the tar is damaged, or is none: copy or make it again", subject_,
                          header_at_, what));
}

Status TarScanner::check_not_compressed(std::span<const std::byte> start) const {
  struct Kind {
    std::string_view magic, name, command;
  };
  static constexpr Kind kKinds[] = {{"\x1f\x8b", "gzip", "gunzip"},
                                    {"\x28\xb5\x2f\xfd", "zstd", "unzstd"},
                                    {"\xfd"
                                     "7zXZ",
                                     "xz", "unxz"},
                                    {"BZh", "bzip2", "bunzip2"}};
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  for (const Kind& kind : kKinds) {
    if (text.starts_with(kind.magic)) {
      return fail(Code::kUnsupported, "tar " + subject_ + ": compressed with " + std::string(kind.name) +
                                          ", so members cannot be read one by one; unpack it first: " +
                                          std::string(kind.command) + " " + subject_);
    }
  }
  return {};
}

Result<TarScanner::Found> TarScanner::read_header(Header* header) {
  for (bool ended = false;; ended = true) {
    header_at_ = at_;
    const std::uint64_t left = file_bytes_ - at_;
    if (left == 0) {
      ends_with_mark_ = ended;
      return Found::kEnd;  // also without the mark, which is told and no error: some programs write none
    }
    *header = Header{};
    const auto block = std::as_writable_bytes(std::span(header->raw)).first(std::min(left, kBlock));
    TRY(read_(at_, block));
    if (at_ == 0) TRY(check_not_compressed(block));
    if (at_ == 0 && left < kBlock)
      return corrupt(fmt::format("truncated: wanted a header of 512 B, got {} B", left));
    at_ += block.size();
    if (header->is_zero()) continue;  // the end mark; behind it another tar may have been appended
    const bool holds = left >= kBlock && header->checksum_holds();
    if (!holds && !ended && left >= kBlock) return corrupt("not a tar header (checksum)");
    if (!holds) at_ = file_bytes_;
    return holds ? Found::kHeader : Found::kRest;
  }
}

/// Whatever was there is lost, and its key is to be found incomplete: under a name whose extension none has.
TarMember TarScanner::lost(const std::string& name) const {
  return {name + "." + std::string(kCutOffExtension), header_at_, 0};
}

Status TarScanner::skip_payload(std::uint64_t bytes, const std::string& member) {
  const std::uint64_t left = file_bytes_ - at_;
  if (bytes > left) {
    return corrupt(fmt::format("truncated: wanted {} B, got {} B{}", bytes, left,
                               (member.empty() ? "" : " (member " + member + ")")));
  }
  at_ += std::min(align_up(bytes, kBlock), left);  // the last block's padding may be missing
  return {};
}

Result<std::string> TarScanner::read_extension(std::uint64_t bytes) {
  if (bytes > kExtensionBytesMax) return corrupt(fmt::format("extended header of {} B", bytes));
  const std::uint64_t start = at_;
  TRY(skip_payload(bytes));
  std::string text(bytes, '\0');
  if (bytes != 0) TRY(read_(start, std::as_writable_bytes(std::span(text))));
  return text;
}

Status TarScanner::take_pax(std::string_view records, Extended* into) const {
  while (!records.empty() && records.front() != '\0') {
    std::uint64_t length = 0;
    const auto [after, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(after - records.data());
    if (error != std::errc{} || length > records.size() || length < digits + 3 || records[digits] != ' ' ||
        records[length - 1] != '\n') {
      return corrupt("pax record");
    }
    const std::string_view pair = records.substr(digits + 1, length - digits - 2);
    records.remove_prefix(length);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return corrupt("pax record without '='");
    const std::string_view key = pair.substr(0, equals);
    const std::string_view value = pair.substr(equals + 1);
    if (key == "path") {
      into->name = std::string(value);
    } else if (key == "size") {
      std::uint64_t bytes = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size()) return corrupt("pax size");
      into->bytes = bytes;
    } else if (key.starts_with("GNU.sparse.")) {
      into->sparse = true;
    }
  }
  return {};
}

Result<bool> TarScanner::take_member(const Header& header, std::uint64_t bytes, TarMember* member) {
  const Extended extended = std::exchange(next_, Extended{});
  if (extended.bytes || global_.bytes) bytes = extended.bytes ? *extended.bytes : *global_.bytes;
  if (bytes >= kRecordBytesMax) return corrupt(fmt::format("size of {} B", bytes));
  std::string name = extended.name ? *extended.name : global_.name ? *global_.name : header.name();
  const char type = header.type();
  // Links, directories and devices have no payload, whatever their size says.
  if (type >= '1' && type <= '6') return false;
  const std::uint64_t start = at_;
  const bool regular = type == '0' || type == '\0' || type == '7';
  if (regular && bytes > file_bytes_ - at_) {  // the last one of a tar that was cut off
    at_ = file_bytes_;
    *member = lost(name);
    return true;
  }
  TRY(skip_payload(bytes, name));
  if (type == 'S' || (regular && (extended.sparse || global_.sparse))) {
    return fail(Code::kUnsupported,
                "tar " + subject_ + ": member " + name +
                    " is sparse, so its bytes are not in one piece; pack it without --sparse");
  }
  if (!regular || name.ends_with('/')) return false;
  if (name.empty() || name.find('\0') != std::string::npos) return corrupt("name of a member");
  *member = {std::move(name), start, bytes};
  return true;
}

Result<bool> TarScanner::next(TarMember* member) {
  Header header;
  for (;;) {
    ASSIGN(const Found found_header, read_header(&header));
    if (found_header == Found::kEnd) return false;
    if (found_header == Found::kRest) {
      *member = lost(fmt::format("@{}", header_at_));
      return true;
    }
    const auto bytes = field_number(header.field(124, 12));
    if (!bytes) return corrupt("size is not a number");
    switch (header.type()) {
      case 'L': {  // GNU: the next member's name
        ASSIGN(std::string name, read_extension(*bytes));
        name.resize(::strnlen(name.data(), name.size()));
        next_.name = std::move(name);
        break;
      }
      case 'K':
        TRY(read_extension(*bytes));
        break;  // GNU: the name that a link points to
      case 'x':
      case 'X':
      case 'g': {
        ASSIGN(const std::string records, read_extension(*bytes));
        TRY(take_pax(records, header.type() == 'g' ? &global_ : &next_));
        break;
      }
      default: {
        ASSIGN(const bool found, take_member(header, *bytes, member));
        if (found) return true;
      }
    }
  }
}

}  // namespace carya::io
