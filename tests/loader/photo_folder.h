#pragma once

#include <filesystem>
#include <string>

namespace carya::loader {

/// A temporary image folder of small JPEGs, made from a seed, in two classes; removed at the end.
class PhotoFolder {
 public:
  explicit PhotoFolder(int count);
  ~PhotoFolder();
  PhotoFolder(const PhotoFolder&) = delete;
  PhotoFolder& operator=(const PhotoFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// For a Unix socket beside it, which is removed with it.
  std::string socket() const { return path_.string() + ".socket"; }
  std::filesystem::path file(int record) const;
  /// Overwrite a file with as many bytes that are no image.
  void spoil(int record) const;
  void remove(int record) const;

 private:
  std::filesystem::path path_;
  int count_;
};

}  // namespace carya::loader
