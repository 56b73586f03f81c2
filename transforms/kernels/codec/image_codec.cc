#include "transforms/kernels/codec/image_codec.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "transforms/kernels/codec/jpeg_dispatch.h"
#include "transforms/kernels/codec/png.h"

namespace carya::transforms {
namespace {

struct Signature {
  std::size_t at;
  std::string_view bytes;
  const char* name;
};

using std::string_view_literals::operator""sv;

// First match wins. Source: the formats' own specifications.
constexpr Signature kOthers[] = {
    {8, "WEBP"sv, "WebP"},
    {0, "GIF8"sv, "GIF"},
    {0, "BM"sv, "BMP"},
    {0, "II*\0"sv, "TIFF"},
    {0, "MM\0*"sv, "TIFF"},
    {0, "\0\0\0\x0CjP  "sv, "JPEG 2000"},
    {0, "\xFF\x4F\xFF\x51"sv, "JPEG 2000 codestream"},
    {0, "\xFF\x0A"sv, "JPEG XL"},
    {0, "\0\0\0\x0CJXL "sv, "JPEG XL"},
    {4, "ftypavif"sv, "AVIF"},
    {4, "ftypavis"sv, "AVIF"},
    {4, "ftyphei"sv, "HEIC"},
    {4, "ftyphev"sv, "HEIC"},
    {4, "ftypmif1"sv, "HEIF"},
    {4, "ftyp"sv, "MP4 or QuickTime"},
    {0, "8BPS"sv, "Photoshop"},
    {0, "\0\0\x01\0"sv, "ICO"},
    {0, "qoif"sv, "QOI"},
    {0, "%PDF"sv, "PDF"},
    {0, "<svg"sv, "SVG"},
    {0, "<?xml"sv, "XML"},
    {0, "<"sv, "HTML or XML"},
    {0, "PK\x03\x04"sv, "ZIP"},
    {0, "\x1F\x8B"sv, "gzip"},
};

bool starts(std::span<const std::byte> bytes, std::size_t at, std::string_view with) {
  return bytes.size() >= at + with.size() && std::memcmp(bytes.data() + at, with.data(), with.size()) == 0;
}

std::string first_bytes(std::span<const std::byte> bytes) {
  std::string text;
  char hex[4];
  for (std::size_t i = 0; i < std::min<std::size_t>(bytes.size(), 4); ++i) {
    std::snprintf(hex, sizeof(hex), i == 0 ? "%02X" : " %02X", std::to_integer<unsigned>(bytes[i]));
    text += hex;
  }
  return text;
}

}  // namespace

Result<ImageFormat> sniff(std::span<const std::byte> bytes) {
  if (starts(bytes, 0, "\xFF\xD8\xFF"sv)) return ImageFormat::kJpeg;
  if (starts(bytes, 0, "\x89PNG\r\n\x1A\n"sv)) return ImageFormat::kPng;
  if (bytes.empty()) return fail(Code::kCorrupt, "not a JPEG or PNG (empty)");
  std::string message = "not a JPEG or PNG (starts with " + first_bytes(bytes);
  for (const Signature& other : kOthers) {
    if (!starts(bytes, other.at, other.bytes)) continue;
    message += std::string(": ") + other.name;
    break;
  }
  return fail(Code::kCorrupt, message + ")");
}

struct ImageDecoder::State {
  JpegDispatch jpeg;
  PngReader png;
  ImageFormat format = ImageFormat::kJpeg;
  bool opened = false;
};

ImageDecoder::ImageDecoder() : state_(std::make_unique<State>()) {}
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

DecodeCounts ImageDecoder::take_counts() {
  return state_->jpeg.take_counts();
}

void ImageDecoder::set_index(FieldIndex* index) {
  if (state_->opened && state_->format == ImageFormat::kJpeg) state_->jpeg.set_index(index);
}

void ImageDecoder::set_patience(Patience* patience) {
  state_->jpeg.set_patience(patience);
  state_->png.set_patience(patience);
}

void ImageDecoder::set_bands(BandRunner* runner) {
  state_->jpeg.set_bands(runner);
}

Result<ImageInfo> ImageDecoder::open(std::span<const std::byte> bytes, const ImageLimits& limits) {
  State& s = *state_;
  s.opened = false;
  ASSIGN(s.format, sniff(bytes));
  auto info = s.format == ImageFormat::kJpeg ? s.jpeg.open(bytes, limits) : s.png.open(bytes, limits);
  s.opened = info.has_value();
  return info;
}

Result<ImageInfo> ImageDecoder::open_packed(std::span<const std::byte> entry, const ImageLimits& limits,
                                            FieldIndex& field) {
  State& s = *state_;
  s.format = ImageFormat::kJpeg;
  auto info = s.jpeg.open_packed(entry, limits, field);
  s.opened = info.has_value();
  return info;
}

Status ImageDecoder::decode_region(const Region& region, ColorMode mode, const MutableImageView& out) {
  State& s = *state_;
  if (!s.opened) return fail(Code::kInvalidArgument, "decode_region without an opened picture");
  return s.format == ImageFormat::kJpeg ? s.jpeg.decode_region(region, mode, out)
                                        : s.png.decode_region(region, mode, out);
}

Result<ImageView> ImageDecoder::decode_view(const Region& region, ColorMode mode) {
  State& s = *state_;
  if (!s.opened) return fail(Code::kInvalidArgument, "decode_view without an opened picture");
  return s.format == ImageFormat::kJpeg ? s.jpeg.decode_view(region, mode) : s.png.decode_view(region, mode);
}

}  // namespace carya::transforms
