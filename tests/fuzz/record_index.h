#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>

#include "io/index/file_window.h"
#include "io/index/record_index.h"

namespace carya::io {

/// Bytes as a file of which nothing is read that is not there.
inline FileWindow window_of(std::span<const std::byte> bytes) {
  return {bytes.size(), [bytes](std::uint64_t offset, std::span<std::byte> out) -> Status {
            CHECK(offset <= bytes.size() && out.size() <= bytes.size() - offset);
            if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
            return {};
          }};
}

/// Records lie in the file, and these fields of bytes in their records; and the index is stored and loaded as it was.
inline void check_index(const RecordIndex& index, const RecordSpec& spec, std::uint64_t file_bytes,
                        std::initializer_list<std::size_t> fields) {
  for (std::size_t i = 0; i < index.count(); ++i) {
    const auto place = index.places()[i];
    CHECK(place.offset <= file_bytes && place.bytes <= file_bytes - place.offset);
    for (const std::size_t field : fields) {
      const auto range = index.ranges(field)[i];
      CHECK(range.offset >= place.offset && range.offset - place.offset <= place.bytes);
      CHECK(range.bytes <= place.bytes - (range.offset - place.offset));
    }
  }
  for (const RecordFault& fault : index.faults()) CHECK(!fault_text(spec, fault).empty());
  const auto image = index.store(file_bytes, 1);
  const auto again = RecordIndex::load(image, spec, file_bytes, 1);
  CHECK(again && again->store(file_bytes, 1) == image);
}

}  // namespace carya::io
