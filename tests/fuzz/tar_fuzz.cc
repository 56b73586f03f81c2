// Any bytes are a tar or an error: no crash, no read outside, no member outside, bounded memory.
#include <cstdint>
#include <cstring>
#include <span>

#include "io/sources/tar_scanner.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya;
  // Checksums stop a fuzzer at the first header, so they are made right where a header may begin.
  std::vector<std::uint8_t> tar(data, data + size);
  for (std::size_t at = 0; at + 512 <= size; at += 512) {
    if (tar[at] == 0) continue;
    std::memset(&tar[at + 148], ' ', 8);
    unsigned sum = 0;
    for (std::size_t i = 0; i < 512; ++i) sum += tar[at + i];
    for (int digit = 5; digit >= 0; --digit, sum >>= 3) {
      tar[at + 148 + static_cast<std::size_t>(digit)] = static_cast<std::uint8_t>('0' + (sum & 7));
    }
  }
  const auto read = [&tar](std::uint64_t offset, std::span<std::byte> out) -> Status {
    CHECK(offset <= tar.size() && out.size() <= tar.size() - offset);
    std::memcpy(out.data(), tar.data() + offset, out.size());
    return {};
  };
  io::TarScanner scanner("fuzz", tar.size(), read);
  io::TarMember member;
  for (std::size_t count = 0;; ++count) {
    const auto more = scanner.next(&member);
    if (!more || !*more) return 0;
    CHECK(count <= tar.size() / 512);
    CHECK(member.offset <= tar.size() && member.bytes <= tar.size() - member.offset && !member.name.empty());
  }
}
