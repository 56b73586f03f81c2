// Photos so large that several cores work on one give the stream that one core makes.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "loader/engine/band_crew.h"
#include "tests/jpeg_writer.h"
#include "tests/loader/job_reading.h"

namespace carya::loader {
namespace {

/// Two photos of more than kPixelsMin, one plain and one in restart intervals, one of them also with damage.
class LargePhotos {
 public:
  LargePhotos() {
    std::filesystem::create_directories(path_ / "a");
    write("0.jpg", photo(0));
    write("1.jpg", photo(1));
    std::vector<std::byte> bad = photo(0);
    for (std::size_t i = 1; i < 20; ++i) bad[bad.size() / 20 * i] ^= std::byte{0x55};
    write("2.jpg", bad);
  }
  ~LargePhotos() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  static std::vector<std::byte> photo(int restart_rows) {
    std::uint32_t state = 3;
    return write_jpeg(
        2016, 2016, 3, 80,
        [&](std::size_t y, std::span<unsigned char> row) {
          for (std::size_t i = 0; i < row.size(); ++i) {
            state = state * 1664525U + 1013904223U;
            row[i] = static_cast<unsigned char>((i / 30 + y / 9) % 200 + (state >> 28));
          }
        },
        [&](jpeg_compress_struct& info) { info.restart_in_rows = restart_rows; });
  }
  void write(const char* name, const std::vector<std::byte>& bytes) const {
    std::ofstream(path_ / "a" / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("carya_large_" + std::to_string(getpid()));
};

std::vector<std::uint64_t> rows_of(const LargePhotos& photos, std::uint32_t threads, std::uint32_t slots) {
  const std::string json =
      R"({"version":1,"source":{"type":"image_folder","path":")" + photos.path().string() +
      R"("},"views":[],"shuffle":{"seed":5},"ops":[{"op":"decode_image"},{"op":"resize","size":[70,60]}],)"
      R"("batch":{"batch_size":1,"global_size":null,"drop_last":false,"pad_last":false}})";
  const auto pipeline = transforms::Pipeline::parse(json);
  EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message);
  const auto dataset = Dataset::open(**pipeline, {});
  EXPECT_TRUE(dataset);
  const auto job = start({*pipeline, *dataset}, {.epochs = 2, .threads = threads, .slots = slots});
  std::vector<std::uint64_t> rows = drain(*job);
  const std::vector<std::uint64_t> second = drain(*job);
  rows.insert(rows.end(), second.begin(), second.end());
  EXPECT_EQ(rows.size(), 6U);
  return rows;
}

TEST(LargePhotosOnSeveralCores, GiveTheStreamOfOneCore) {
  const LargePhotos photos;
  const std::vector<std::uint64_t> alone = rows_of(photos, 1, 2);
  EXPECT_EQ(rows_of(photos, 2, 2), alone);
  EXPECT_EQ(rows_of(photos, 4, 2), alone);
  EXPECT_EQ(rows_of(photos, 4, 8), alone);
}

}  // namespace
}  // namespace carya::loader
