#include "transforms/kernels/codec/jpeg_writer.h"

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <jpeglib.h>

namespace carya::transforms {
namespace {

constexpr std::size_t kFirstBytes = 64 << 10;
constexpr std::size_t kAfter = 64;  // decoders may look at bytes behind a file

/// APP1 with an orientation and nothing else: "Exif", a TIFF block in big-endian order, one entry. Source: Exif 2.32.
std::array<JOCTET, 32> exif_of(int orientation) {
  return {'E', 'x', 'i', 'f', 0,    0, 'M', 'M', 0, 42, 0, 0, 0,
          8,   0,   1,   1,   0x12, 0, 3,   0,   0, 0,  1, 0, static_cast<JOCTET>(orientation),
          0,   0,   0,   0,   0,    0};
}

}  // namespace

struct JpegWriter::Encoding {
  jpeg_compress_struct cinfo{};
  jpeg_error_mgr errors{};
  jpeg_destination_mgr target{};
  std::jmp_buf jump;
  JOCTET* memory = nullptr;
  std::size_t capacity = 0;

  Encoding();
  ~Encoding() {
    jpeg_destroy_compress(&cinfo);
    std::free(memory);
  }
  /// Run `work`, from which the library may jump out; false then. Nothing in `work` may need a destructor.
  template <typename Work>
  bool guarded(const Work& work) {
    if (setjmp(jump) != 0) return false;
    work();
    return true;
  }
  /// Make the memory larger, keep what is in it, and let the library write behind `used`.
  void grow(std::size_t wanted, std::size_t used) {
    auto* const more = static_cast<JOCTET*>(std::realloc(memory, wanted + kAfter));
    if (more == nullptr) std::longjmp(jump, 1);
    memory = more;
    capacity = wanted;
    target.next_output_byte = memory + used;
    target.free_in_buffer = capacity - used;
  }
};

namespace {

JpegWriter::Encoding& encoding_of(j_compress_ptr cinfo) {
  return *static_cast<JpegWriter::Encoding*>(cinfo->client_data);
}

void on_writing_error(j_common_ptr cinfo) {
  std::longjmp(static_cast<JpegWriter::Encoding*>(cinfo->client_data)->jump, 1);
}
void on_writing_message(j_common_ptr, int) {}
void on_writing_output(j_common_ptr) {}

void begin(j_compress_ptr cinfo) {
  JpegWriter::Encoding& encoding = encoding_of(cinfo);
  if (encoding.capacity == 0) return encoding.grow(kFirstBytes, 0);
  encoding.target.next_output_byte = encoding.memory;
  encoding.target.free_in_buffer = encoding.capacity;
}
boolean more(j_compress_ptr cinfo) {  // all of the memory is written
  JpegWriter::Encoding& encoding = encoding_of(cinfo);
  encoding.grow(2 * encoding.capacity, encoding.capacity);
  return TRUE;
}
void end(j_compress_ptr) {}

}  // namespace

JpegWriter::Encoding::Encoding() {
  cinfo.err = jpeg_std_error(&errors);
  errors.error_exit = on_writing_error;
  errors.emit_message = on_writing_message;
  errors.output_message = on_writing_output;
  cinfo.client_data = this;
  CHECK(guarded([this] { jpeg_create_compress(&cinfo); }));
  target.init_destination = begin;
  target.empty_output_buffer = more;
  target.term_destination = end;
  cinfo.dest = &target;
}

JpegWriter::JpegWriter() : encoding_(std::make_unique<Encoding>()) {}
JpegWriter::~JpegWriter() = default;
JpegWriter::JpegWriter(JpegWriter&&) noexcept = default;
JpegWriter& JpegWriter::operator=(JpegWriter&&) noexcept = default;

Result<std::span<const std::byte>> JpegWriter::write(const ImageView& pixels, int quality, int orientation) {
  CHECK(pixels.channels == 1 || pixels.channels == 3);
  CHECK(pixels.height >= 1 && pixels.height <= kSideMax && pixels.width >= 1 && pixels.width <= kSideMax);
  CHECK(quality >= 1 && quality <= 100 && orientation >= 1 && orientation <= 8);
  Encoding& s = *encoding_;
  const bool written = s.guarded([&] {
    s.cinfo.image_width = static_cast<JDIMENSION>(pixels.width);
    s.cinfo.image_height = static_cast<JDIMENSION>(pixels.height);
    s.cinfo.input_components = static_cast<int>(pixels.channels);
    s.cinfo.in_color_space = pixels.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&s.cinfo);  // halves chroma both ways
    jpeg_set_quality(&s.cinfo, quality, TRUE);
    s.cinfo.dct_method = JDCT_ISLOW;
    s.cinfo.optimize_coding = TRUE;
    jpeg_start_compress(&s.cinfo, TRUE);
    if (orientation != 1) {
      const std::array<JOCTET, 32> exif = exif_of(orientation);
      jpeg_write_marker(&s.cinfo, JPEG_APP0 + 1, exif.data(), static_cast<unsigned>(exif.size()));
    }
    while (s.cinfo.next_scanline < s.cinfo.image_height) {
      // The library reads through pointers that are not const, and writes nothing.
      auto* row = const_cast<JSAMPLE*>(pixels.row(s.cinfo.next_scanline));
      (void)jpeg_write_scanlines(&s.cinfo, &row, 1);
    }
    jpeg_finish_compress(&s.cinfo);
  });
  if (!written) {
    jpeg_abort_compress(&s.cinfo);
    return fail(Code::kExhausted, "JPEG: no memory for the picture");
  }
  const std::size_t bytes = s.capacity - s.target.free_in_buffer;
  std::memset(s.memory + bytes, 0, kAfter);
  return std::as_bytes(std::span(s.memory, bytes));
}

}  // namespace carya::transforms
