#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace carya::transforms {

/// The most objects of a sample, and the most key points of an object.
inline constexpr std::int64_t kObjectsMax = 16'384;
inline constexpr std::int64_t kKeyPointsMax = 1'024;

/// A box by its corners, in pixels of the picture; x from the left, y from the top. The pixel in column 0 reaches from 0
/// to 1.
struct Box {
  float left = 0;
  float top = 0;
  float right = 0;
  float bottom = 0;
  bool operator==(const Box&) const = default;
};

/// A place that belongs to an object. `seen` is COCO's visibility: 0 is not labelled, and means here also that the
/// point lies outside of the picture.
struct KeyPoint {
  float x = 0;
  float y = 0;
  float seen = 0;
};

/// The objects in one picture, which follow what is done to its pixels. Boxes stay inside of the picture: a movement
/// cuts off what leaves it, and a box of which nothing is left has no area. Every movement is the one of torchvision
/// v2's bounding boxes and key points, with float32 values and a fixed order of operations: the same bits on every
/// machine.
///
/// Memory: grows to the largest sample, then allocates nothing. Threads: owner only.
class Objects {
 public:
  /// Two key points that change places where a picture is mirrored left to right, such as left and right eye.
  using Pair = std::array<std::int64_t, 2>;

  /// Begin a sample without objects, whose picture has this size. `pairs` outlives the sample.
  void begin(std::int64_t height, std::int64_t width, std::size_t key_points, std::span<const Pair> pairs);
  /// Add an object that `row` of the source's rows describes. Returns its key points, for the caller to fill.
  std::span<KeyPoint> add(const Box& box, std::uint32_t row);

  std::size_t count() const { return boxes_.size(); }
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }
  std::span<const Box> boxes() const { return boxes_; }
  std::span<const KeyPoint> key_points() const { return points_; }  ///< those of one object after the other
  std::span<const std::uint32_t> rows() const { return rows_; }     ///< of each object, in the source

  /// The picture becomes its window of height x width at (top, left), which may reach outside.
  void window(std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width);
  void resize(std::int64_t height, std::int64_t width);
  void flip(bool horizontal, bool vertical);
  /// `matrix` says where the pixels of the result come from (WarpSpec). A box becomes the smallest one around its moved
  /// corners.
  void warp(const std::array<double, 6>& matrix);

  /// Keep the objects for which `keep(box)` is true, in their order.
  template <typename Keep>
  void keep_if(Keep keep) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < boxes_.size(); ++i)
      if (keep(std::as_const(boxes_[i]))) move_object(i, kept++);
    shrink(kept);
  }
  /// Cut boxes off at the border of the picture.
  void clip();

 private:
  void move_object(std::size_t from, std::size_t to);
  void shrink(std::size_t count);
  void hide_points_outside();
  void swap_pairs();

  std::int64_t height_ = 0;
  std::int64_t width_ = 0;
  std::size_t key_points_ = 0;  // of each object
  std::span<const Pair> pairs_;
  // One entry for each object; key_points_ of them in points_.
  std::vector<Box> boxes_;
  std::vector<std::uint32_t> rows_;
  std::vector<KeyPoint> points_;
};

}  // namespace carya::transforms
