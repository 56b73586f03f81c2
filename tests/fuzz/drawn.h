#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// Well-formed documents with hostile values: the bytes of an input decide what is changed, and into what.

namespace carya {

using Json = nlohmann::json;

/// The bytes of a fuzzer's input, taken one after the other; zeros behind its end.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool any() const { return at_ < size_; }
  std::uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
  std::size_t below(std::size_t count) { return (byte() | std::size_t{byte()} << 8) % count; }
  Json number() {
    switch (byte() % 12) {
      case 0:
        return -1;
      case 1:
        return 0;
      case 2:
        return 1;
      case 3:
        return std::numeric_limits<std::int64_t>::min();
      case 4:
        return std::numeric_limits<std::uint64_t>::max();
      case 5:
        return std::numeric_limits<double>::quiet_NaN();
      case 6:
        return std::numeric_limits<double>::infinity();
      case 7:
        return 1e308;
      case 8:
        return std::uint64_t{1} << (byte() % 64);
      case 9:
        return -(std::int64_t{1} << (byte() % 63));
      case 10:
        return static_cast<double>(byte()) / 255;
      default:
        return byte();
    }
  }
  /// Text of any bytes and length.
  std::string text() {
    static constexpr std::size_t kLengths[] = {0, 1, 15, 255, 4096, 60'000};
    std::string made(kLengths[byte() % std::size(kLengths)], static_cast<char>(byte()));
    for (std::size_t i = byte() % 8; i > 0 && !made.empty(); --i)
      made[below(made.size())] = static_cast<char>(byte());
    return made;
  }
  /// Most often a number; else something of another type.
  Json value() {
    switch (byte() % 8) {
      case 0:
        return text();
      case 1:
        return nullptr;
      case 2:
        return (byte() & 1) != 0;
      case 3:
        return Json::array({number(), text()});
      case 4:
        return Json{{"", number()}, {text(), Json::array()}};
      default:
        return number();
    }
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

/// All numbers of a document, wherever they stand.
inline void collect_numbers(Json& in, std::vector<Json*>& numbers) {
  if (in.is_number()) numbers.push_back(&in);
  if (in.is_structured())
    for (Json& item : in) collect_numbers(item, numbers);
}

/// All values of a document that contain no others.
inline void collect_leaves(Json& in, std::vector<Json*>& leaves) {
  if (!in.is_structured()) leaves.push_back(&in);
  if (in.is_structured())
    for (Json& item : in) collect_leaves(item, leaves);
}

/// A folder of this process, removed at its end, with photos below data/a.
class PhotosFolder {
 public:
  explicit PhotosFolder(std::size_t photos)
      : path_((std::filesystem::temp_directory_path() / "carya-fuzz-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
    std::filesystem::create_directories(path_ + "/data/a");
    for (std::size_t i = 0; i < photos; ++i)
      std::filesystem::copy_file(CARYA_FUZZ_PHOTO, path_ + "/data/a/" + std::to_string(i) + ".jpg");
  }
  ~PhotosFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PhotosFolder(const PhotosFolder&) = delete;
  PhotosFolder& operator=(const PhotosFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace carya
