#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "io/index/file_window.h"

namespace carya::io {

/// A buffer of FlatBuffers as it is read: any bytes, until they were checked. A place that does not lie in the
/// buffer reads as if nothing were there, and marks the buffer as broken; who reads looks at `broken` before he
/// believes anything.
struct FlatBuffer {
  std::span<const std::byte> bytes;
  bool broken = false;

  /// `count` bytes at a place; nullptr when they are not all there.
  const std::byte* at(std::uint64_t place, std::uint64_t count) {
    if (place <= bytes.size() && count <= bytes.size() - place) return bytes.data() + place;
    broken = true;
    return nullptr;
  }
  template <typename T>
  T number(std::uint64_t place) {
    const std::byte* from = at(place, sizeof(T));
    return from != nullptr ? load_little<T>(from) : T{};
  }
};

class FlatTable;

/// A vector of a table: `size` elements of a size that the reader knows. Default: none.
class FlatVector {
 public:
  FlatVector() = default;
  FlatVector(FlatBuffer& buffer, std::uint64_t place, std::uint32_t size)
      : buffer_(&buffer), place_(place), size_(size) {}

  std::uint32_t size() const { return size_; }
  /// Element `i` of numbers, or number `k` of structs of `numbers` of them. CHECKs that i < size().
  template <typename T>
  T number(std::uint32_t i, std::uint32_t k = 0, std::uint32_t numbers = 1) const {
    CHECK(i < size_);
    return buffer_->number<T>(place_ + (std::uint64_t{i} * numbers + k) * sizeof(T));
  }
  /// Element `i` of tables. CHECKs that i < size().
  FlatTable table(std::uint32_t i) const;

 private:
  FlatBuffer* buffer_ = nullptr;
  std::uint64_t place_ = 0;
  std::uint32_t size_ = 0;
};

/// A table: fields by their number in the schema, each there or not. The buffer outlives it.
///
/// Threads: owner only.
/// Source:  flatbuffers.dev, "FlatBuffer Internals"
class FlatTable {
 public:
  /// The buffer's own table.
  static FlatTable root(FlatBuffer& buffer);
  FlatTable(FlatBuffer& buffer, std::uint64_t place);

  bool has(std::uint32_t field) const { return place_of(field) != 0; }
  template <typename T>
  T number(std::uint32_t field, T otherwise = T{}) const {
    const std::uint64_t place = place_of(field);
    return place != 0 ? buffer_->number<T>(place) : otherwise;
  }
  /// A table without fields where there is none.
  FlatTable table(std::uint32_t field) const;
  std::string_view string(std::uint32_t field) const;
  /// Of elements of `bytes` each: numbers, structs, or tables (4).
  FlatVector vector(std::uint32_t field, std::uint32_t bytes) const;

 private:
  explicit FlatTable(FlatBuffer& buffer) : buffer_(&buffer) {}
  /// Where the field's value lies; 0 when the table has none.
  std::uint64_t place_of(std::uint32_t field) const;
  /// Where the field's offset leads; 0 when the table has none.
  std::uint64_t target_of(std::uint32_t field) const;

  FlatBuffer* buffer_;
  std::uint64_t place_ = 0;
  std::uint64_t fields_ = 0;       // where the offsets of the fields lie
  std::uint32_t field_count_ = 0;  // of which the table knows
};

}  // namespace carya::io
