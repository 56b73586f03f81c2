#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace carya::io {

/// CRC-32C (Castagnoli), as iSCSI, ext4 and TFRecord compute it.
///
/// Threads: thread-safe.
/// Cost:    with SSE 4.2 three streams of its instruction at once, else eight tables; tests compare both.
/// Source:  RFC 3720, appendix B.4 (polynomial and answers).
std::uint32_t crc32c(std::span<const std::byte> bytes);

/// The same without instructions of its own.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes);

/// What TFRecord stores: rotated and moved, since the CRC of data that holds its own CRC is weak.
/// Source: tensorflow/core/lib/hash/crc32c.h, Mask().
constexpr std::uint32_t masked_crc(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace carya::io
