#include "transforms/kernels/codec/indexed_decode.h"

#include <algorithm>
#include <cstring>

namespace carya::transforms {
namespace {

/// Bytes of an index up to its point count: shape, length and hash of its file (transforms/jpeg/FORMAT.md).
constexpr std::size_t kBindingBytes = 32;

void write(const jpeg::Index& index, FieldIndex& out) {
  out.made.clear();
  if (!index.points().empty()) index.write(out.made);
}

// Whether one list of points begins with the other.
bool agree(std::span<const jpeg::IndexPoint> a, std::span<const jpeg::IndexPoint> b) {
  const std::size_t count = std::min(a.size(), b.size());
  return std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(count), b.begin());
}

}  // namespace

jpeg::Outcome IndexedDecode::decode(jpeg::Decoder& decoder, std::span<const std::uint8_t> bytes,
                                    const jpeg::Region& region, jpeg::Mode mode, std::uint8_t* out,
                                    std::size_t stride, FieldIndex& index) {
  index.made.clear();
  index.use = IndexUse::kNone;
  const jpeg::Header& header = decoder.header();
  if (header.restart_interval != 0) return decoder.decode(bytes, region, mode, out, stride);
  if (fresh_.spacing() != index.spacing) fresh_ = jpeg::Index(index.spacing);

  const bool readable =
      !index.known.empty() &&
      stored_.read({reinterpret_cast<const std::uint8_t*>(index.known.data()), index.known.size()});
  const bool fine_enough = readable && jpeg::Index::points_per_row(stored_.spacing(), header.mcu_cols) >=
                                           jpeg::Index::points_per_row(index.spacing, header.mcu_cols);
  if (!fine_enough) {
    const jpeg::Outcome outcome = decoder.decode(bytes, region, mode, out, stride, nullptr, &fresh_);
    if (outcome != jpeg::Outcome::kDone) return outcome;
    if (!index.known.empty() && !readable) index.use = IndexUse::kRefused;
    write(fresh_, index);
    return outcome;
  }

  before_.assign(stored_.points().begin(), stored_.points().end());
  const jpeg::Outcome outcome = decoder.decode(bytes, region, mode, out, stride, &stored_, &stored_);
  if (outcome != jpeg::Outcome::kDone) return outcome;
  // A decode that meets a lie, or another file's index, forgets all points and makes them anew.
  const bool kept =
      stored_.points().size() >= before_.size() && agree(stored_.points(), before_) && bound_as(index.known);
  index.use = kept ? IndexUse::kUsed : IndexUse::kRefused;
  if (!kept || stored_.points().size() > before_.size()) write(stored_, index);
  if (!kept || !index.verify) return outcome;
  return verify(decoder, bytes, region, mode, out, stride, index);
}

// Whether stored_ still belongs to the file that `known` says: another one can have the very same points.
bool IndexedDecode::bound_as(std::span<const std::byte> known) {
  head_ = stored_;
  head_.cut(0);
  head_bytes_.clear();
  head_.write(head_bytes_);
  return std::memcmp(head_bytes_.data(), known.data(), kBindingBytes) == 0;
}

// Once more without the index. Where the two differ the second one counts, and its points replace the stored.
jpeg::Outcome IndexedDecode::verify(jpeg::Decoder& decoder, std::span<const std::uint8_t> bytes,
                                    const jpeg::Region& region, jpeg::Mode mode, std::uint8_t* out,
                                    std::size_t stride, FieldIndex& index) {
  const std::size_t row_bytes =
      static_cast<std::size_t>(region.width) * static_cast<std::size_t>(jpeg::channels(mode));
  if (!again_.reserve(row_bytes * static_cast<std::size_t>(region.height))) return jpeg::Outcome::kDone;
  const jpeg::Outcome outcome =
      decoder.decode(bytes, region, mode, again_.data(), row_bytes, nullptr, &fresh_);
  if (outcome == jpeg::Outcome::kGivenUp) {  // neither the same nor another
    index.use = IndexUse::kNone;
    index.made.clear();
    return outcome;
  }
  bool same = outcome == jpeg::Outcome::kDone &&
              (stored_.spacing() != fresh_.spacing() || agree(stored_.points(), fresh_.points()));
  for (int y = 0; same && y < region.height; ++y)
    same = std::memcmp(out + static_cast<std::size_t>(y) * stride,
                       again_.data() + static_cast<std::size_t>(y) * row_bytes, row_bytes) == 0;
  if (same) return outcome;
  index.use = IndexUse::kMismatch;
  index.made.clear();
  if (outcome != jpeg::Outcome::kDone) return outcome;
  for (int y = 0; y < region.height; ++y)
    std::memcpy(out + static_cast<std::size_t>(y) * stride,
                again_.data() + static_cast<std::size_t>(y) * row_bytes, row_bytes);
  write(fresh_, index);
  return outcome;
}

}  // namespace carya::transforms
