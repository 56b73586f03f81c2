// Removes the 00 behind every FF of an entropy-coded scan, and finds its restart markers and its end.
#if defined(CARYA_JPEG_UNSTUFF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_JPEG_UNSTUFF_INL_H_
#undef CARYA_JPEG_UNSTUFF_INL_H_
#else
#define CARYA_JPEG_UNSTUFF_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <span>

#include "transforms/jpeg/scan/lanes-inl.h"
#include "transforms/jpeg/work.h"

HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {

inline void append(std::vector<std::uint32_t>& list, int& count, std::size_t value) {
  if (static_cast<std::size_t>(count) == list.size()) list.resize(2 * list.size() + 256);
  list[static_cast<std::size_t>(count++)] = static_cast<std::uint32_t>(value);
}

// Copy bytes up to the next FF or the end. Returns how many.
HWY_INLINE std::size_t copy_to_ff(const std::uint8_t* from, std::size_t size, std::uint8_t* to) {
  std::size_t i = 0;
#if !CARYA_JPEG_PLAIN
  const D8 d;
  const V8 ff = hn::Set(d, 0xFF);
  const std::size_t lanes = hn::Lanes(d);
  for (; i + lanes <= size; i += lanes) {
    const V8 bytes = hn::LoadU(d, from + i);
    hn::StoreU(bytes, d, to + i);  // bytes behind an FF are written again later
    const std::intptr_t at = hn::FindFirstTrue(d, hn::Eq(bytes, ff));
    if (at >= 0) return i + static_cast<std::size_t>(at);
  }
#endif
  for (; i < size && from[i] != 0xFF; ++i) to[i] = from[i];
  return i;
}

// The marker or stuffing that begins with the FF at scan[at].
struct Marker {
  bool stuffed = false;
  int code = 0;  // the code of a marker; 0: the bytes end inside it
  std::size_t bytes = 0;
};
HWY_INLINE Marker look_at_ff(std::span<const std::uint8_t> scan, std::size_t at) {
  if (at + 1 < scan.size() && scan[at + 1] == 0) return {true, 0, 2};
  std::size_t i = at + 1;
  while (i < scan.size() && scan[i] == 0xFF) ++i;
  // FF FF 00 is a stuffed byte behind a fill byte. No encoder writes that, so it counts as damage.
  return {false, i < scan.size() ? scan[i] : 0, i + 1 - at};
}

// Fill `out` from `scan`. Restart markers must come in order, and only if the header announced them. Any other marker
// ends the data, and so does the end of the bytes.
inline void unstuff(std::span<const std::uint8_t> scan, bool restarts, Unstuffed& out) {
  out.bytes.grow(scan.size() + kBitSlack);
  out.segment_count = 0;
  out.stuffed_count = 0;
  out.ended_by_eoi = false;
  std::uint8_t* const to = out.bytes.data();
  std::size_t at = 0;
  std::size_t size = 0;
  for (;;) {
    const std::size_t run = copy_to_ff(scan.data() + at, scan.size() - at, to + size);
    at += run;
    size += run;
    if (at >= scan.size()) break;
    const Marker marker = look_at_ff(scan, at);
    at += marker.bytes;
    if (HWY_LIKELY(marker.stuffed)) {
      to[size++] = 0xFF;
      append(out.stuffed_after, out.stuffed_count, size);
      continue;
    }
    if (restarts && marker.code == 0xD0 + (out.segment_count & 7)) {
      append(out.segment_ends, out.segment_count, size);
      continue;
    }
    out.ended_by_eoi = marker.code == 0xD9;
    break;
  }
  out.size = size;
  std::memset(to + size, 0, kBitSlack < 128 ? kBitSlack : 128);
}

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
