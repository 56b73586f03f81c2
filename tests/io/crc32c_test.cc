#include "io/formats/crc32c.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace carya::io {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc32c, GivesTheKnownAnswersOfRfc3720) {
  std::string rising(32, '\0'), falling(32, '\0');
  for (std::size_t i = 0; i < 32; ++i) {
    rising[i] = static_cast<char>(i);
    falling[i] = static_cast<char>(31 - i);
  }
  const std::vector<std::pair<std::string, std::uint32_t>> known = {{std::string(32, '\0'), 0x8a9136aa},
                                                                    {std::string(32, '\xff'), 0x62a8ab43},
                                                                    {rising, 0x46dd794e},
                                                                    {falling, 0x113fdb5c},
                                                                    {"123456789", 0xe3069283},
                                                                    {"", 0}};
  for (const auto& [text, crc] : known) {
    EXPECT_EQ(crc32c(bytes_of(text)), crc) << text.size();
    EXPECT_EQ(crc32c_portable(bytes_of(text)), crc) << text.size();
  }
}

TEST(Crc32c, InstructionAndTablesAgreeAtEveryLengthAndPlace) {
  std::mt19937_64 random(7);
  std::vector<std::byte> data(20000);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  const std::span<const std::byte> all(data);
  for (std::size_t length = 0; length < 700; ++length)
    ASSERT_EQ(crc32c(all.subspan(length % 9, length)), crc32c_portable(all.subspan(length % 9, length)));
  for (std::size_t length = 3000; length < 19000; length += 61)
    ASSERT_EQ(crc32c(all.subspan(length % 13, length)), crc32c_portable(all.subspan(length % 13, length)));
}

}  // namespace
}  // namespace carya::io
