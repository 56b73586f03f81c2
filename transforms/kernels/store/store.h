#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transforms/kernels/image/image_view.h"

namespace carya::transforms {

enum class Layout : std::uint8_t { kHwc, kChw };

/// (x / unit - mean) / std is x * normal_factor(std, unit) + normal_offset(mean, std). Each is rounded once from
/// double. `unit` is 255 for uint8 and 1 for float.
inline float normal_factor(double std, double unit) {
  return static_cast<float>(1.0 / (unit * std));
}
inline float normal_offset(double mean, double std) {
  return static_cast<float>(-mean / std);
}

/// value = x * a + b per channel, in float32; the product and the sum are each rounded.
struct Affine {
  std::array<float, 4> a{1, 1, 1, 1};
  std::array<float, 4> b{0, 0, 0, 0};
  bool operator==(const Affine&) const = default;

  /// Set channel `c` to become (x / unit - mean) / std.
  void normalize(std::size_t c, double mean, double std, double unit) {
    a[c] = normal_factor(std, unit);
    b[c] = normal_offset(mean, std);
  }
};

/// The last pass over uint8 rows: flip, cast, normalize and layout.
struct StoreSpec {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  ///< 1, 3 or 4
  Layout layout = Layout::kHwc;
  bool to_float = false;  ///< whether to store float32 by `affine`; if not, the bytes
  bool flip_horizontal = false;
  bool flip_vertical = false;
  Affine affine;
  /// Whether to store past the cache, for memory that this core does not read soon. It changes no bit.
  bool stream = true;

  std::int64_t bytes() const { return height * width * channels * (to_float ? 4 : 1); }
};

/// Stores the rows of one picture into `out` (spec.bytes() bytes, any alignment). Each row comes once, in ascending
/// order; finish() follows the last one. All bytes of `out` are written and no others. Each row reads exactly width *
/// channels bytes.
///
/// Exact:   same bits on every SIMD target and for every alignment.
/// Threads: owner only; lives on the stack of one sample.
class RowStore {
 public:
  RowStore(const StoreSpec& spec, std::byte* out);
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  void row(std::int64_t y, const std::uint8_t* pixels);
  /// Order streamed stores before the stores that publish the memory.
  void finish();
  /// A sink that calls row(). This object must outlive it.
  RowSink sink();

 private:
  void append_row(const std::uint8_t* pixels);
  void append(const std::uint8_t* bytes, std::int64_t count);

  StoreSpec spec_;
  std::byte* out_;
  // Bytes that come in order are streamed line by line: out_[0, appended_) has come, and its last `waiting_` bytes are
  // in line_.
  bool lines_ = false;
  std::int64_t appended_ = 0;
  std::int64_t waiting_ = 0;
  alignas(64) std::uint8_t line_[64];
};

/// Store all rows of `in`, which has the size of `spec`, into `out`.
void store_image(const ImageView& in, const StoreSpec& spec, std::byte* out);

/// Store a float32 picture: out[i] = in[i] * a[c] + b[c]. `in` is packed (height, width, channels), or planes if
/// in_layout is kChw. Flips as `spec` says.
void store_float_image(const float* in, Layout in_layout, const StoreSpec& spec, std::byte* out);

}  // namespace carya::transforms
