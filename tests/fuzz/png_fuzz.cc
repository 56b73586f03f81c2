// A PNG file, or a zlib stream, from anywhere: what our own unpacking reads to its end, libspng and zlib read to the
// same bytes. The checksums of a file are made right first, since no mutation finds them.

#include <cstring>
#include <vector>

#include "base/error.h"
#include "tests/transforms/png_reference.h"
#include "transforms/kernels/codec/inflate.h"

namespace {

using namespace carya::transforms;  // NOLINT(google-build-using-namespace): a program of one file
using Bytes = PngReference::Bytes;

constexpr std::size_t kPixelsMax = 1 << 18;

void check_file(Bytes file) {
  correct_sums(file);
  const PngReference reference(file);
  if (reference.bytes == 0 || reference.header.interlace_method != 0) return;
  Bytes own;
  if (!own_rows(file, reference.header, reference.bytes, own)) return;
  CHECK(reference.status == 0);
  CHECK(own == reference.rows);
  if (reference.header.color_type != SPNG_COLOR_TYPE_GRAYSCALE || reference.header.bit_depth > 8) return;
  PngRows reader;
  const std::uint8_t* all =
      reader.all(std::as_bytes(std::span(file)), reference.bytes, reference.header.height);
  CHECK(all != nullptr);
  for (std::size_t y = 0; y < reference.header.height; ++y)
    CHECK(std::memcmp(all + y * (reference.bytes + 1), own.data() + y * reference.bytes, reference.bytes) ==
          0);
}

/// The blocks behind zlib's head, with the checksum of what zlib gets from them.
void check_blocks(const std::uint8_t* data, std::size_t size, std::size_t longest) {
  Bytes out(kPixelsMax);
  z_stream zlib{};
  CHECK(inflateInit2(&zlib, -15) == Z_OK);
  zlib.next_in = const_cast<Bytef*>(data);
  zlib.avail_in = static_cast<uInt>(size);
  zlib.next_out = out.data();
  zlib.avail_out = static_cast<uInt>(out.size());
  const bool whole = inflate(&zlib, Z_FINISH) == Z_STREAM_END;
  out.resize(zlib.total_out);
  Bytes stream{0x78, 0x01};
  stream.insert(stream.end(), data, whole ? zlib.next_in : data + size);
  inflateEnd(&zlib);
  const auto sum = static_cast<std::uint32_t>(::adler32(1, out.data(), static_cast<uInt>(out.size())));
  append_big_endian(stream, sum);
  CHECK(adler32(1, out.data(), out.size()) == sum);
  const std::size_t packed = stream.size();
  stream.resize(packed + Inflater::kSlack);
  Inflater inflater;
  if (!inflater.begin({stream.data(), packed}, out.size(), longest)) return;
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t count = std::min(longest, out.size() - at);
    const std::uint8_t* some = inflater.take(count);
    if (some == nullptr) return;
    CHECK(!whole || std::memcmp(some, out.data() + at, count) == 0);
    at += count;
  }
  CHECK(whole || out.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 8 && data[0] == 0x89) {
    check_file(Bytes(data, data + size));
  } else if (size > 1) {
    check_blocks(data + 1, size - 1, 1 + std::size_t{data[0]} * 3);
  }
  return 0;
}
