// Any bytes are an MDS shard or an error: no crash, no read outside of the file, no field outside of its sample,
// bounded memory.
#include <cstdint>
#include <span>

#include "io/formats/mds.h"
#include "tests/fuzz/record_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya;
  using Kind = io::RecordField::Kind;
  static const io::RecordSpec kSpec{
      .format = io::RecordFormat::kMds,
      .fields = {{.name = "image", .key = "image"},
                 {.kind = Kind::kLabel, .name = "label", .key = "label"},
                 {.kind = Kind::kTensor, .name = "box", .key = "box", .dtype = DType::kFloat32, .values = 2},
                 {.kind = Kind::kTensor, .name = "row", .key = "row", .dtype = DType::kUint16, .values = 3},
                 {.name = "record", .key = std::nullopt}}};
  io::FileWindow window = io::window_of(std::as_bytes(std::span(data, size)));
  const io::Progress none;
  io::ListingProgress progress(none);
  const auto index = io::index_mds("fuzz", window, kSpec, progress);
  if (!index) return 0;
  CHECK(index->count() <= size / 4);
  io::check_index(*index, kSpec, size, {0});
  return 0;
}
