// Any bytes are a TFRecord file or an error: no crash, no read outside of the file, no field outside of its
// record, bounded memory; and its index is stored and loaded as it was.
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "io/formats/crc32c.h"
#include "io/formats/tfrecord.h"
#include "tests/fuzz/record_index.h"

namespace {

using namespace carya;

// The spec that all inputs are read with: every kind of field.
io::RecordSpec fields() {
  using Kind = io::RecordField::Kind;
  return {
      .fields = {{.name = "image", .key = "img"},
                 {.kind = Kind::kLabel, .name = "label", .key = "cls"},
                 {.kind = Kind::kTensor, .name = "box", .key = "box", .dtype = DType::kFloat32, .values = 2},
                 {.kind = Kind::kTensor, .name = "ids", .key = "ids", .dtype = DType::kInt64, .values = 3},
                 {.name = "record", .key = std::nullopt}}};
}

std::string framed(std::string_view data, bool sound) {
  std::string text(12, '\0');
  const std::uint64_t bytes = data.size();
  std::memcpy(text.data(), &bytes, 8);
  const auto sum = [](std::string_view some) {
    return io::masked_crc(io::crc32c_portable(std::as_bytes(std::span(some))));
  };
  std::uint32_t crc = sum({text.data(), 8});
  std::memcpy(text.data() + 8, &crc, 4);
  text += data;
  crc = sum(data) ^ (sound ? 0 : 1);
  return text.append(reinterpret_cast<const char*>(&crc), 4);
}

// Checksums stop a fuzzer at once. The first byte chooses: the bytes as they are, or as the data of frames
// that are right, each begun by a byte of its length; what is left is the tail of the file.
std::string file_of(const std::uint8_t* data, std::size_t size) {
  std::string_view left(reinterpret_cast<const char*>(data), size);
  if (left.empty() || left[0] == 'r') return std::string(left.substr(left.empty() ? 0 : 1));
  std::string file;
  left.remove_prefix(1);
  while (left.size() > 2) {
    const auto bytes = static_cast<std::size_t>(static_cast<unsigned char>(left[0])) * 4;
    const bool sound = left[1] != 'x';
    left.remove_prefix(2);
    if (bytes > left.size()) break;
    file += framed(left.substr(0, bytes), sound);
    left.remove_prefix(bytes);
  }
  return file.append(left);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const io::RecordSpec kSpec = fields();
  const std::string file = file_of(data, size);
  io::FileWindow window = io::window_of(std::as_bytes(std::span(file)));
  const io::Progress none;
  io::ListingProgress progress(none);
  const auto index = io::index_tfrecord("fuzz", window, kSpec, progress);
  if (!index) return 0;
  CHECK(index->count() <= file.size() / 16 + 1);
  io::check_index(*index, kSpec, file.size(), {0, 4});
  return 0;
}
