#include "transforms/plan/pass_price.h"

#include <fmt/core.h>

namespace carya::transforms {
namespace {

double values(ImageSize size, std::int64_t channels) {
  return static_cast<double>(size.height) * static_cast<double>(size.width) * static_cast<double>(channels);
}

}  // namespace

bool PassPrice::fits(double ns) {
  ns_ += ns;
  return ns_max_ == UINT64_MAX || ns_ <= static_cast<double>(ns_max_);
}

std::unexpected<Error> PassPrice::over(const std::string& about) const {
  return fail(Code::kCorrupt, fmt::format("{} the sample takes {:.1f} s at the least, and may take {:.1f} s",
                                          about, ns_ * 1e-9, static_cast<double>(ns_max_) * 1e-9));
}

Status PassPrice::add(const Op& op, ImageSize in, ImageSize out, std::int64_t channels) {
  const AssumedCost& cost = op.traits().assumed_cost;
  if (fits(cost.fixed_ns + cost.per_byte_in_ns * values(in, channels) +
           (cost.per_byte_out_ns + cost.per_element_out_ns) * values(out, channels)))
    return {};
  return over(op.name() + ": with what comes before it");
}

Status PassPrice::add_decode(const DecodeImage& op, const ImageInfo& info, std::int64_t file_bytes,
                             ImageSize out) {
  const AssumedCost& cost = op.traits().assumed_cost;
  // What a byte of a PNG costs is anything between a copy and many rows of one color.
  double bytes = info.format == ImageFormat::kJpeg ? static_cast<double>(file_bytes) : 0;
  if (!info.multi_scan) bytes *= static_cast<double>(out.height) / static_cast<double>(info.height);
  if (fits(cost.fixed_ns + cost.per_byte_in_ns * bytes +
           cost.per_element_out_ns * values(out, color_channels(op.mode()))))
    return {};
  return over("with the other operations");
}

}  // namespace carya::transforms
