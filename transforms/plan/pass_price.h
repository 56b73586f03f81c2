#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "transforms/op/op.h"
#include "transforms/ops/decode.h"
#include "transforms/ops/geometry.h"

namespace carya::transforms {

/// The least time that the passes of one sample take, added up before they run. It follows from what ops are assumed to
/// cost on a fast core (OpTraits::assumed_cost) for the bytes that they read and make. So a chain of operations on a
/// large picture is refused before its first one, and not when its time is up.
///
/// A decode is added just before it begins, since only then it is known how much of a picture is decoded. Bytes that
/// are read only to reach those pixels (rows above them, early scans) are not included. Threads: owner only.
class PassPrice {
 public:
  /// `ns_max` is the most nanoseconds that a sample may take; UINT64_MAX means no limit.
  explicit PassPrice(std::uint64_t ns_max = UINT64_MAX) : ns_max_(ns_max) {}

  /// Add a pass of `op` over a picture of `channels` channels, uint8 or float32. Errors: kCorrupt if the sample's
  /// passes exceed the limit, which the message names.
  Status add(const Op& op, ImageSize in, ImageSize out, std::int64_t channels);
  /// The rows and columns `out` of a picture, decoded from a file of so many bytes.
  /// Errors: as add(), without the op's name.
  Status add_decode(const DecodeImage& op, const ImageInfo& info, std::int64_t file_bytes, ImageSize out);

 private:
  /// Whether so much more is not too much.
  bool fits(double ns);
  std::unexpected<Error> over(const std::string& about) const;

  std::uint64_t ns_max_;
  double ns_ = 0;
};

}  // namespace carya::transforms
