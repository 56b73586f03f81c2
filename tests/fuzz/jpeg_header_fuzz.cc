// The header parser of transforms/jpeg: any bytes, each from a buffer of exactly their size.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "transforms/jpeg/header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya::jpeg;
  const std::vector<std::uint8_t> bytes(data, data + size);
  Header header;
  if (read_header(bytes, header) != Ordinary::kOrdinary) return 0;
  if (header.scan_begin > bytes.size() || header.width < 1 || header.height < 1) std::abort();
  for (int c = 0; c < header.component_count; ++c) {
    const HuffmanSpec& spec = header.ac[header.components[c].ac];
    if (spec.bytes < bytes.data() || spec.bytes + 16 + spec.symbol_count > bytes.data() + bytes.size())
      std::abort();
  }
  return 0;
}
