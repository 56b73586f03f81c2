#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "transforms/op/params.h"
#include "transforms/ops/objects/object_op.h"

namespace carya::transforms {

/// Tells which fields are boxes, key points and what else each object has, so that they follow the pixels of the main
/// image from here on.
///
/// Shapes:  boxes (any, 4) float32 -> (objects_max, 4) float32, left, top, right and bottom in pixels; each other field
///          (any, ...) -> (objects_max, ...), any dtype. Behind the objects there are zeros. A field "boxes_count"
///          (NAME_count of another name) is added, int64: the objects that there are.
/// Rules:   what reaches over the border of the picture is cut off. A box that is not finite, whose ends are in the
///          wrong order or that lies beside the picture, is bad data, or is left out.
class BoxesOp final : public ObjectOp {
 public:
  enum class Format : std::uint8_t { kXyxy, kXywh, kCxcywh };
  struct Options {
    Format format = Format::kXyxy;
    bool relative = false;                         ///< in parts of the picture's width and height
    std::int64_t objects_max = 0;                  ///< 0: the most of any record
    bool truncate = false;                         ///< leave out what is more; else it is bad data
    bool drop_invalid = false;                     ///< leave out what is invalid; else it is bad data
    std::string boxes;                             ///< the field
    std::optional<std::vector<std::string>> rows;  ///< further fields; none: all with a row for each box
    std::optional<std::string> key_points;         ///< the field with x, y and visibility of each
    std::vector<Objects::Pair> pairs;              ///< of key points
    std::optional<std::string> count;  ///< the field that says how many of the boxes there are; none: all
  };

  static Result<std::unique_ptr<Op>> parse(Params& params);
  BoxesOp(Json::Object canonical, Options options);
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const override;
  void apply(Objects&) const override {}

  /// The fields of a sample as the source has them: `boxes` of 4 float32 each, `key_points` with as many objects
  /// (empty: none), of which the first `count` are there.
  struct Source {
    std::span<const std::byte> boxes;
    std::span<const std::byte> key_points;
    std::size_t count = 0;
  };
  /// Begin `objects` with those of a sample, whose picture has this size. Errors: kCorrupt.
  Status load(const Source& source, std::int64_t height, std::int64_t width, std::size_t key_points,
              std::size_t objects_max, Objects& objects) const;
  /// The same for fields that load() and movements have made before.
  void load_again(const Source& source, std::int64_t height, std::int64_t width, std::size_t key_points,
                  Objects& objects) const;

 private:
  Result<std::vector<std::size_t>> find_rows(const std::vector<FieldState>& fields, std::size_t boxes) const;
  Status take_count(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const;
  Status take_key_points(std::vector<FieldState>& fields, std::size_t boxes, std::int64_t objects_max,
                         std::vector<std::size_t>& indices) const;
  Box to_pixels(const float* values, std::int64_t height, std::int64_t width) const;

  Options options_;
};

/// Leaves out objects whose boxes are small, as a crop may leave them. Source: torchvision v2 SanitizeBoundingBoxes.
class SanitizeBoxes final : public ObjectOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  SanitizeBoxes(Json::Object canonical, double min_size, double min_area);
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const override;
  void apply(Objects& objects) const override;

 private:
  float min_size_;
  float min_area_;
};

/// The indices of all fields of objects, ascending; empty if there are none.
std::vector<std::size_t> object_fields(const std::vector<FieldState>& fields);
/// The index of the field that is this part of the objects, or FieldState::kNoField.
std::size_t object_field(const std::vector<FieldState>& fields, FieldState::Part part);

}  // namespace carya::transforms
