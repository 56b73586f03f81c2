// Any bytes are a stored index of records or an error: no crash, nothing outside of the file it is of.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/hash.h"
#include "io/index/record_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya;
  using Kind = io::RecordField::Kind;
  static const io::RecordSpec kSpec{
      .fields = {
          {.name = "image", .key = "img"},
          {.kind = Kind::kLabel, .name = "label", .key = "cls"},
          {.kind = Kind::kTensor, .name = "box", .key = "box", .dtype = DType::kFloat32, .values = 2}}};
  constexpr std::size_t kHead = 104;
  constexpr std::uint64_t kFileBytes = 1 << 20;
  const auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> image(bytes.begin(), bytes.end());
  // Hashes and identities stop a fuzzer at once, so they are made right.
  if (image.size() >= kHead) {
    const auto put = [&image](std::size_t at, std::uint64_t value) {
      std::memcpy(image.data() + at, &value, 8);
    };
    const Hash128 spec = kSpec.fingerprint();
    std::memcpy(image.data(), "CARYARIX\1\0\0\0\3\0\0\0", 16);
    put(16, image.size());
    put(24, spec.high);
    put(32, spec.low);
    put(40, kFileBytes);
    put(48, 1);
    put(88, hash64(std::span(image).subspan(kHead)));
    put(96, hash64(std::span(image).first(96)));
  }
  const auto index = io::RecordIndex::load(image, kSpec, kFileBytes, 1);
  if (!index) return 0;
  CHECK(index->count() <= size / 16 && index->column(2).size() == 8 * index->count());
  CHECK(index->labels().size() == index->count());
  for (const auto& range : index->ranges(0))
    CHECK(range.offset <= kFileBytes && range.bytes <= kFileBytes - range.offset);
  for (const io::RecordFault& fault : index->faults()) {
    CHECK(fault.record < index->count());
    CHECK(!io::fault_text(kSpec, fault).empty());
  }
  return 0;
}
