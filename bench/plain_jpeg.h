#pragma once

#include <csetjmp>
#include <cstdio>

#include <algorithm>

#include <jpeglib.h>

#include "bench/photos.h"

namespace carya::bench {

struct PlainErrors {
  jpeg_error_mgr base;
  std::jmp_buf jump;
};

/// Region decodes by libjpeg-turbo with nothing of ours around it: what any caller of the library pays.
class PlainLoop {
 public:
  PlainLoop() {
    cinfo_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = [](j_common_ptr c) {
      std::longjmp(reinterpret_cast<PlainErrors*>(c->err)->jump, 1);
    };
    errors_.base.emit_message = [](j_common_ptr, int) {};
    jpeg_create_decompress(&cinfo_);
  }
  ~PlainLoop() { jpeg_destroy_decompress(&cinfo_); }
  PlainLoop(const PlainLoop&) = delete;
  PlainLoop& operator=(const PlainLoop&) = delete;

  void decode(const Photo& photo, std::uint8_t* out) {
    if (setjmp(errors_.jump) != 0) {
      jpeg_abort_decompress(&cinfo_);
      return;
    }
    jpeg_mem_src(&cinfo_, reinterpret_cast<const unsigned char*>(photo.bytes.data()), photo.bytes.size());
    jpeg_read_header(&cinfo_, TRUE);
    const bool inks = cinfo_.num_components == 4;
    cinfo_.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&cinfo_);
    const Region& r = photo.region;
    auto left = static_cast<JDIMENSION>(std::max<std::int64_t>(r.left - 1, 0));
    auto columns =
        static_cast<JDIMENSION>(std::min<std::int64_t>(r.left + r.width + 1, photo.info.width)) - left;
    jpeg_crop_scanline(&cinfo_, &left, &columns);
    const auto top = static_cast<JDIMENSION>(r.top & ~std::int64_t{1});
    if (top > 0) jpeg_skip_scanlines(&cinfo_, top);
    const std::size_t stride =
        std::size_t{cinfo_.output_width} * static_cast<std::size_t>(cinfo_.output_components);
    const auto rows = static_cast<JDIMENSION>(r.top + r.height) - top;
    for (JDIMENSION y = 0; y < rows;) {
      JSAMPROW pointers[16];
      const JDIMENSION count = std::min<JDIMENSION>(rows - y, 16);
      for (JDIMENSION i = 0; i < count; ++i) pointers[i] = out + (y + i) * stride;
      y += jpeg_read_scanlines(&cinfo_, pointers, count);
    }
    jpeg_abort_decompress(&cinfo_);
  }

 private:
  jpeg_decompress_struct cinfo_{};
  PlainErrors errors_{};
};

}  // namespace carya::bench
