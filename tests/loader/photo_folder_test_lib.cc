#include <cstddef>

#include <fstream>
#include <random>
#include <span>
#include <vector>

#include "photo_folder.h"
#include "tests/jpeg_writer.h"

namespace carya::loader {
namespace {

std::vector<std::byte> make_jpeg(int width, int height, unsigned seed) {
  std::mt19937 random(seed);
  std::size_t at = 0;
  return write_jpeg(height, width, 3, 80, [&](std::size_t, std::span<unsigned char> row) {
    for (unsigned char& value : row)
      value = static_cast<unsigned char>((at++ * (seed % 7 + 1)) / 5 + random() % 32);
  });
}

}  // namespace

PhotoFolder::PhotoFolder(int count) : count_(count) {
  std::string name = (std::filesystem::temp_directory_path() / "carya-photos-XXXXXX").string();
  path_ = mkdtemp(name.data());
  for (int i = 0; i < count; ++i) {
    std::filesystem::create_directories(file(i).parent_path());
    const auto bytes = make_jpeg(40 + i % 30, 30 + i % 25, static_cast<unsigned>(i));
    std::ofstream(file(i), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
}

PhotoFolder::~PhotoFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  std::filesystem::remove(socket(), ignored);
}

std::filesystem::path PhotoFolder::file(int record) const {
  char name[16];
  std::snprintf(name, sizeof name, "%04d.jpg", record);
  return path_ / (record < count_ / 2 ? "ant" : "bee") / name;
}

void PhotoFolder::spoil(int record) const {
  const auto bytes = std::filesystem::file_size(file(record));
  std::ofstream(file(record), std::ios::binary) << std::string(bytes, 'x');
}

void PhotoFolder::remove(int record) const {
  std::filesystem::remove(file(record));
}

}  // namespace carya::loader
