// Any bytes are a zip or an error: no crash, no read outside, no member outside or over another, bounded memory.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "io/sources/zip_members.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya;
  const auto bytes = std::as_bytes(std::span(data, size));
  io::FileWindow window(size, [bytes](std::uint64_t offset, std::span<std::byte> out) -> Status {
    CHECK(offset <= bytes.size() && out.size() <= bytes.size() - offset);
    if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
    return {};
  });
  static_cast<void>(io::begins_as_zip(window));
  auto members = io::zip_members("fuzz", window);
  if (!members) return 0;
  CHECK(members->size() <= size / 46);
  std::ranges::sort(*members, {}, [](const io::TarMember& member) { return member.offset; });
  std::uint64_t end = 0;
  for (const io::TarMember& member : *members) {
    CHECK(!member.name.empty() && member.name.find('\0') == std::string::npos);
    CHECK(member.offset >= end && member.offset <= size && member.bytes <= size - member.offset);
    end = member.offset + member.bytes;
  }
  return 0;
}
