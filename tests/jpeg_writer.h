#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

// libjpeg's header wants size_t and FILE before it.
#include <jpeglib.h>

namespace carya {

/// A JPEG made by libjpeg-turbo, for tests and benches. `fill(y, row)` makes each row of width * channels
/// bytes; `configure(cinfo)` may change the defaults (samplings, scans). channels: 1 gray, 3 RGB, 4 CMYK.
template <typename Fill, typename Configure = void (*)(jpeg_compress_struct&)>
std::vector<std::byte> write_jpeg(
    std::int64_t height, std::int64_t width, int channels, int quality, Fill fill,
    Configure configure = [](jpeg_compress_struct&) {}) {
  jpeg_compress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_compress(&cinfo);
  unsigned char* data = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&cinfo, &data, &count);
  cinfo.image_width = static_cast<JDIMENSION>(width);
  cinfo.image_height = static_cast<JDIMENSION>(height);
  cinfo.input_components = channels;
  cinfo.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&cinfo);
  jpeg_set_quality(&cinfo, quality, TRUE);
  configure(cinfo);
  jpeg_start_compress(&cinfo, TRUE);
  std::vector<unsigned char> row(static_cast<std::size_t>(width) * static_cast<std::size_t>(channels));
  for (std::int64_t y = 0; y < height; ++y) {
    fill(static_cast<std::size_t>(y), std::span(row));
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&cinfo, &pointer, 1);
  }
  jpeg_finish_compress(&cinfo);
  jpeg_destroy_compress(&cinfo);
  const auto* first = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(first, first + count);
  std::free(data);
  return bytes;
}

}  // namespace carya
