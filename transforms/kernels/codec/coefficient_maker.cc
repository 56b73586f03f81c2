#include "transforms/kernels/codec/coefficient_maker.h"

#include <cstring>

namespace carya::transforms {
namespace {

/// Larger pictures in several scans are not compared, and get no entry.
constexpr std::int64_t kComparedPixelsMax = std::int64_t{1} << 25;

}  // namespace

std::span<const std::uint8_t> CoefficientMaker::make(std::span<const std::byte> file,
                                                     const ImageLimits& limits, double share_max) {
  const auto info = turbo_.open(file, limits);
  refused_ = !info;
  if (!info || file.size() > UINT32_MAX) return {};
  const auto bytes_max = static_cast<std::size_t>(share_max * static_cast<double>(file.size()));
  const std::span<const std::uint8_t> bytes{reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
  if (own_.recognise(bytes) == jpeg::Ordinary::kOrdinary) {
    const jpeg::Header header = own_.header();
    packer_.begin(header,
                  {.file_bytes = static_cast<std::uint32_t>(file.size()),
                   .orientation = static_cast<std::uint8_t>(info->exif_orientation)},
                  bytes_max);
    if (own_.read_coefficients(bytes, packer_) != jpeg::Outcome::kDone) return {};
    return packer_.finish();
  }
  if (!info->multi_scan || info->width * info->height > kComparedPixelsMax) return {};
  const auto packed = turbo_.pack(packer_, bytes_max);
  if (!packed || !*packed) return {};
  const std::span<const std::uint8_t> entry = packer_.finish();
  if (entry.empty() || !has_pixels_of_opened(entry)) return {};
  return entry;
}

// libjpeg-turbo has ways of its own for some files in several scans, such as smoothing what is not there yet.
bool CoefficientMaker::has_pixels_of_opened(std::span<const std::uint8_t> entry) {
  if (!unpacker_.open(entry)) return false;
  const int width = unpacker_.header().width;
  const int height = unpacker_.header().height;
  const std::size_t stride = static_cast<std::size_t>(width) * 3;
  const std::size_t bytes = stride * static_cast<std::size_t>(height);
  if (!expected_.reserve(bytes) || !made_.reserve(bytes)) return false;
  const std::uint64_t warnings = turbo_.warnings();
  const MutableImageView view{expected_.data(), height, width, 3, static_cast<std::int64_t>(stride)};
  if (!turbo_.decode_region({0, 0, height, width}, ColorMode::kRgb, view)) return false;
  if (turbo_.warnings() != warnings) return false;
  return unpacker_.decode({0, 0, width, height}, jpeg::Mode::kRgb, made_.data(), stride) ==
             jpeg::Outcome::kDone &&
         std::memcmp(made_.data(), expected_.data(), bytes) == 0;
}

}  // namespace carya::transforms
