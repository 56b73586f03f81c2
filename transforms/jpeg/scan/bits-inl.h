// Reads the bits of an unstuffed scan. The next bit is at the top of a 64-bit window.
#if defined(CARYA_JPEG_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_JPEG_BITS_INL_H_
#undef CARYA_JPEG_BITS_INL_H_
#else
#define CARYA_JPEG_BITS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {

// Invariant: the top `count` bits of the window are the next ones of the stream (more may be there and are right too);
// `next` is the first byte that is not counted. Reads up to 8 bytes from `next`, so the caller keeps slack behind the
// data.
struct BitReader {
  std::uint64_t window = 0;
  std::uint32_t count = 0;
  const std::uint8_t* next = nullptr;

  HWY_INLINE void start(const std::uint8_t* base, std::uint64_t bit) {
    next = base + (bit >> 3);
    window = 0;
    count = 0;
    refill();
    consume(static_cast<std::uint32_t>(bit & 7));
  }
  HWY_INLINE std::uint64_t position(const std::uint8_t* base) const {
    return static_cast<std::uint64_t>(next - base) * 8 - count;
  }
  // Afterwards count is 56 to 63.
  HWY_INLINE void refill() {
    std::uint64_t bytes;
    std::memcpy(&bytes, next, 8);
    window |= __builtin_bswap64(bytes) >> count;
    next += (63 - count) >> 3;
    count |= 56;
  }
  template <int kBits>
  HWY_INLINE std::uint32_t peek() const {
    return static_cast<std::uint32_t>(window >> (64 - kBits));
  }
  // Only the low six bits of n count bits; the others must be zero.
  HWY_INLINE void consume(std::uint32_t n) {
    window <<= n & 63;
    count -= n;
  }
  // Take back the last n bits that were consumed. Afterwards count is at least 49.
  HWY_INLINE void rewind(std::uint32_t n) {
    const std::uint32_t back = count + n;
    next -= (back + 7) >> 3;
    const std::uint32_t skip = (8 - (back & 7)) & 7;
    window = 0;
    count = 0;
    refill();
    consume(skip);
  }
};

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
