#include "transforms/ops/objects/objects.h"

#include <algorithm>
#include <utility>

namespace carya::transforms {

void Objects::begin(std::int64_t height, std::int64_t width, std::size_t key_points,
                    std::span<const Pair> pairs) {
  height_ = height;
  width_ = width;
  key_points_ = key_points;
  pairs_ = pairs;
  shrink(0);
}

std::span<KeyPoint> Objects::add(const Box& box, std::uint32_t row) {
  boxes_.push_back(box);
  rows_.push_back(row);
  points_.resize(points_.size() + key_points_);
  return std::span(points_).last(key_points_);
}

void Objects::clip() {
  const auto right = static_cast<float>(width_), bottom = static_cast<float>(height_);
  for (Box& box : boxes_) {
    box.left = std::clamp(box.left, 0.0F, right);
    box.right = std::clamp(box.right, 0.0F, right);
    box.top = std::clamp(box.top, 0.0F, bottom);
    box.bottom = std::clamp(box.bottom, 0.0F, bottom);
  }
}

void Objects::hide_points_outside() {
  const auto right = static_cast<float>(width_), bottom = static_cast<float>(height_);
  for (KeyPoint& point : points_)
    if (!(point.x >= 0 && point.x < right && point.y >= 0 && point.y < bottom)) point.seen = 0;
}

void Objects::window(std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width) {
  const auto x = static_cast<float>(left), y = static_cast<float>(top);
  for (Box& box : boxes_) box = {box.left - x, box.top - y, box.right - x, box.bottom - y};
  for (KeyPoint& point : points_) point = {point.x - x, point.y - y, point.seen};
  height_ = height;
  width_ = width;
  clip();
  hide_points_outside();
}

void Objects::resize(std::int64_t height, std::int64_t width) {
  const auto x = static_cast<float>(static_cast<double>(width) / static_cast<double>(width_));
  const auto y = static_cast<float>(static_cast<double>(height) / static_cast<double>(height_));
  for (Box& box : boxes_) box = {box.left * x, box.top * y, box.right * x, box.bottom * y};
  for (KeyPoint& point : points_) point = {point.x * x, point.y * y, point.seen};
  height_ = height;
  width_ = width;
}

void Objects::flip(bool horizontal, bool vertical) {
  const auto width = static_cast<float>(width_), height = static_cast<float>(height_);
  if (horizontal) {
    for (Box& box : boxes_) box = {width - box.right, box.top, width - box.left, box.bottom};
    for (KeyPoint& point : points_) point.x = (width - 1.0F) - point.x;
    swap_pairs();
  }
  if (vertical) {
    for (Box& box : boxes_) box = {box.left, height - box.bottom, box.right, height - box.top};
    for (KeyPoint& point : points_) point.y = (height - 1.0F) - point.y;
  }
}

void Objects::swap_pairs() {
  for (std::size_t first = 0; first < points_.size(); first += key_points_)
    for (const auto& [one, other] : pairs_)
      std::swap(points_[first + static_cast<std::size_t>(one)],
                points_[first + static_cast<std::size_t>(other)]);
}

// The matrix leads from the result to the picture, so places go by its inverse.
void Objects::warp(const std::array<double, 6>& m) {
  const double area = m[0] * m[4] - m[1] * m[3];
  if (area == 0) {  // the whole result shows one line of the picture
    keep_if([](const Box&) { return false; });
    return;
  }
  const double a = m[4] / area, b = -m[1] / area, d = -m[3] / area, e = m[0] / area;
  const auto moved = [&](float from_x, float from_y) {
    const double x = static_cast<double>(from_x) - m[2], y = static_cast<double>(from_y) - m[5];
    return std::pair(static_cast<float>(a * x + b * y), static_cast<float>(d * x + e * y));
  };
  for (Box& box : boxes_) {
    const std::array corners{moved(box.left, box.top), moved(box.right, box.top),
                             moved(box.right, box.bottom), moved(box.left, box.bottom)};
    box = {corners[0].first, corners[0].second, corners[0].first, corners[0].second};
    for (const auto& [x, y] : corners)
      box = {std::min(box.left, x), std::min(box.top, y), std::max(box.right, x), std::max(box.bottom, y)};
  }
  for (KeyPoint& point : points_) {
    const auto [x, y] = moved(point.x, point.y);
    point = {x, y, point.seen};
  }
  clip();
  hide_points_outside();
}

void Objects::move_object(std::size_t from, std::size_t to) {
  if (from == to) return;
  boxes_[to] = boxes_[from];
  rows_[to] = rows_[from];
  for (std::size_t k = 0; k < key_points_; ++k)
    points_[to * key_points_ + k] = points_[from * key_points_ + k];
}

void Objects::shrink(std::size_t count) {
  boxes_.resize(count);
  rows_.resize(count);
  points_.resize(count * key_points_);
}

}  // namespace carya::transforms
