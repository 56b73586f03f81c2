#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/median.h"
#include "tests/jpeg_writer.h"
#include "transforms/kernels/codec/turbo_jpeg.h"

namespace carya::bench {

using namespace carya::transforms;

/// One photo in memory and what is done to it.
struct Photo {
  std::vector<std::byte> bytes;
  ImageInfo info;
  Region region;
  bool flip = false;
};

// A seeded draw with torchvision's meaning of random_resized_crop (area 8 to 100 %, ratio 3/4 to 4/3).
class Draws {
 public:
  double next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state_ >> 11) / 9007199254740992.0;
  }
  Region crop(const ImageInfo& info) {
    const auto height = static_cast<double>(info.height);
    const auto width = static_cast<double>(info.width);
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double area = height * width * (0.08 + 0.92 * next());
      const double ratio = std::pow(16.0 / 9.0, next()) * 0.75;
      const auto w = static_cast<std::int64_t>(std::lround(std::sqrt(area * ratio)));
      const auto h = static_cast<std::int64_t>(std::lround(std::sqrt(area / ratio)));
      if (w < 1 || h < 1 || w > info.width || h > info.height) continue;
      const auto top = static_cast<std::int64_t>(next() * static_cast<double>(info.height - h + 1));
      const auto left = static_cast<std::int64_t>(next() * static_cast<double>(info.width - w + 1));
      return {top, left, h, w};
    }
    return {0, 0, info.height, info.width};
  }

 private:
  std::uint64_t state_ = 20260101;
};

inline std::vector<std::byte> generated_photo(int height, int width) {
  return write_jpeg(height, width, 3, 95, [](std::size_t y, std::span<unsigned char> row) {
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = static_cast<unsigned char>(i / 6 + y / 2 + (i * 7 + y * 13) % 23);
  });
}

/// The photos of a folder ("": eight generated ones), each with a crop drawn for it. Files in several scans
/// are left out: the plain loop knows ordinary files only.
inline std::vector<Photo> load_photos(const std::string& folder) {
  std::vector<Photo> photos;
  Draws draws;
  TurboJpeg decoder;
  const auto add = [&](std::vector<std::byte> bytes) {
    auto info = decoder.open(bytes, {});
    if (!info || info->multi_scan) return;
    const Region region = draws.crop(*info);
    photos.push_back({std::move(bytes), *info, region, draws.next() < 0.5});
  };
  if (folder.empty()) {
    for (int i = 0; i < 8; ++i) add(generated_photo(375 + i, 500 - 9 * i));
    return photos;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    add(std::move(bytes));
  }
  return photos;
}

}  // namespace carya::bench
