#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/shm/ring_fixture.h"

namespace carya::shm {
namespace {

/// One line of a hex block of FORMAT.md: which file, where, which bytes.
struct Line {
  std::string file;
  std::uint64_t offset = 0;
  std::vector<unsigned> bytes;
};

std::vector<Line> hex_lines() {
  const std::filesystem::path document = CARYA_SHM_FORMAT;  // not by __FILE__: ccache makes that relative
  std::ifstream in(document);
  EXPECT_TRUE(in.good()) << document;
  std::vector<Line> lines;
  std::string text, file;
  while (std::getline(in, text)) {
    if (text.starts_with("```")) {
      file = text.starts_with("```hex ") ? text.substr(7) : "";
    } else if (!file.empty()) {
      Line line{file, 0, {}};
      std::istringstream words(text);
      words >> std::hex >> line.offset;
      for (unsigned byte = 0; words >> byte;) line.bytes.push_back(byte);
      lines.push_back(line);
    }
  }
  return lines;
}

TEST(Format, TheWorkedExampleIsWhatARingWrites) {
  auto layout = SlotLayout::create(
      {SlotTensor{"image", DType::kUint8, {2, 4, 4, 3}, 0}, SlotTensor{"label", DType::kInt64, {2}, 0}});
  ASSERT_TRUE(layout.has_value());
  auto ring = SlotRing::create(*layout, {.slots = 2, .readers = 1});
  ASSERT_TRUE(ring.has_value());
  auto [index, reader] = attach(**ring);
  const auto slot = (*ring)->acquire();
  ASSERT_EQ(slot, 0u);
  (*ring)->publish(*slot, 7, Meta{10});
  auto lease = reader->next(0);
  ASSERT_TRUE(lease.has_value());
  lease->release();

  const auto fds = (*ring)->reader_fds(index);
  const auto lines = hex_lines();
  EXPECT_EQ(lines.size(), 27u) << "lines of the document's example";
  for (const Line& line : lines) {
    ASSERT_EQ(line.bytes.size(), 16u) << line.file << " @" << line.offset;
    const int fd = line.file == "control" ? fds.control : line.file == "page" ? fds.page : fds.slots[0];
    unsigned char actual[16];
    ASSERT_EQ(pread(fd, actual, 16, static_cast<off_t>(line.offset)), 16);
    EXPECT_EQ(std::vector<unsigned>(actual, actual + 16), line.bytes) << line.file << " @" << line.offset;
  }
}

}  // namespace
}  // namespace carya::shm
