#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace carya::io {

/// A folder of its own for one test, removed at its end.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "carya_io_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp " << name;
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string path() const { return path_.string(); }
  std::string path(std::string_view name) const { return (path_ / name).string(); }

  /// Writes a file (and its folders) and returns its absolute path.
  std::string write(std::string_view name, std::string_view content) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

/// Bytes that look like no other file's, the same on every run.
inline std::string noise(std::size_t bytes, unsigned seed) {
  std::mt19937 draw(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(draw());
  return text;
}

}  // namespace carya::io
