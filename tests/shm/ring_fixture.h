#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "shm/slot_ring.h"

namespace carya::shm {

/// A layout of one image tensor and one label tensor, in the smallest slot there is.
inline SlotLayout small_layout() {
  auto layout = SlotLayout::create(
      {SlotTensor{"image", DType::kUint8, {16, 8, 8, 3}, 0}, SlotTensor{"label", DType::kInt64, {16}, 0}});
  EXPECT_TRUE(layout.has_value());
  return *layout;
}

inline std::shared_ptr<SlotRing> make_ring(SlotRingOptions options = {}) {
  auto ring = SlotRing::create(small_layout(), options);
  EXPECT_TRUE(ring.has_value()) << ring.error().message;
  return *ring;
}

struct Attached {
  std::uint32_t index = 0;
  std::unique_ptr<RingReader> reader;
};

inline Attached attach(SlotRing& ring) {
  auto index = ring.attach_reader();
  EXPECT_TRUE(index.has_value());
  auto reader = RingReader::attach(ring.reader_fds(*index), *index);
  EXPECT_TRUE(reader.has_value()) << reader.error().message;
  return {*index, std::move(*reader)};
}

/// Fill the tensors of a free slot with `value` and publish it as `sequence`; CHECKs that there is one.
inline std::uint32_t publish_value(SlotRing& ring, std::uint64_t sequence, std::uint8_t value,
                                   std::uint32_t readers_mask = ~0u) {
  const auto slot = ring.acquire();
  CHECK(slot.has_value());
  for (const SlotTensor& tensor : ring.layout().tensors()) {
    std::fill_n(ring.data(*slot) + tensor.offset, tensor.bytes(), std::byte{value});
  }
  ring.publish(*slot, sequence, Meta{sequence, value}, readers_mask);
  return *slot;
}

/// Whether every byte of every tensor is `value`.
inline bool all_bytes_are(const SlotLayout& layout, const std::byte* data, std::uint8_t value) {
  for (const SlotTensor& tensor : layout.tensors()) {
    for (std::uint64_t i = 0; i < tensor.bytes(); ++i) {
      if (data[tensor.offset + i] != std::byte{value}) return false;
    }
  }
  return true;
}

}  // namespace carya::shm
