#include "transforms/kernels/codec/jpeg_dispatch.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "transforms/coefficients/unpacker.h"
#include "transforms/jpeg/decoder.h"
#include "transforms/kernels/codec/color_rows.h"
#include "transforms/kernels/codec/indexed_decode.h"
#include "transforms/kernels/codec/turbo_jpeg.h"
#include "transforms/kernels/image/row_buffer.h"

namespace carya::transforms {
namespace {

// Relaxed: tests and benches set it while nothing decodes.
std::atomic<bool> own_wanted{true};

std::span<const std::uint8_t> as_uint8(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

void use_own_jpeg(bool wanted) {
  own_wanted.store(wanted, std::memory_order_relaxed);
}

struct JpegDispatch::State {
  Patience* patience = nullptr;
  TurboJpeg turbo;
  jpeg::Decoder own;
  IndexedDecode indexed;
  coefficients::Unpacker packed;
  FieldIndex* index = nullptr;  // of the opened picture
  FieldIndex* entry = nullptr;  // the field whose packed coefficients were opened; null: a file was
  std::span<const std::byte> bytes;
  bool ordinary = false;               // our own decoder takes it, or it is packed
  bool gray = false;                   // the file has one component
  std::int64_t height = 0, width = 0;  // of the opened picture
  DecodeCounts counts;                 // since they were taken last
  std::uint64_t warnings_taken = 0;    // of turbo.warnings()
  RowBuffer plane;                     // what decode_view() gives out
  RowBuffer color;                     // RGB rows on their way to L

  bool decode_own(const Region& region, ColorMode mode, const MutableImageView& out);
  // What our own decoder gave up: libjpeg-turbo need not begin.
  bool given_up() const { return patience != nullptr && patience->given_up(); }
  std::unexpected<Error> refuse_entry() const {
    entry->damaged = true;
    return fail(Code::kCorrupt, "packed coefficients that are not whole");
  }
  void count_cost(const Region& region, std::int64_t image_height, bool began_there);
};

void JpegDispatch::State::count_cost(const Region& region, std::int64_t image_height, bool began_there) {
  const auto rows = static_cast<std::uint64_t>(began_there ? region.height : region.top + region.height);
  const auto all = static_cast<std::uint64_t>(std::max<std::int64_t>(image_height, 1));
  counts.scan_bytes += bytes.size() * rows / all;
  counts.pixels += static_cast<std::uint64_t>(region.height * region.width);
}

// False: libjpeg-turbo's turn. L of a colour file is made from its RGB, as TurboJpeg does.
bool JpegDispatch::State::decode_own(const Region& region, ColorMode mode, const MutableImageView& out) {
  if (region.height == 0 || region.width == 0) return false;
  const jpeg::Region rectangle{static_cast<int>(region.left), static_cast<int>(region.top),
                               static_cast<int>(region.width), static_cast<int>(region.height)};
  const bool through_color = mode == ColorMode::kL && !gray;
  MutableImageView target = out;
  if (through_color) {
    const std::int64_t stride = region.width * 3;
    if (!color.reserve(static_cast<std::size_t>(stride * region.height))) return false;
    target = {color.data(), region.height, region.width, 3, stride};
  }
  const auto own_mode = target.channels == 3 ? jpeg::Mode::kRgb : jpeg::Mode::kGray;
  const auto stride = static_cast<std::size_t>(target.stride_bytes);
  const jpeg::Outcome outcome =
      entry   ? packed.decode(rectangle, own_mode, target.data, stride)
      : index ? indexed.decode(own, as_uint8(bytes), rectangle, own_mode, target.data, stride, *index)
              : own.decode(as_uint8(bytes), rectangle, own_mode, target.data, stride);
  if (outcome != jpeg::Outcome::kDone) return false;
  if (entry) {
    ++counts.packed;
    counts.pixels += static_cast<std::uint64_t>(region.height * region.width);
  } else {
    ++counts.own;
    const bool began_there = index && index->use == IndexUse::kUsed;
    counts.indexed += began_there;
    count_cost(region, height, began_there);
  }
  if (through_color)
    for (std::int64_t y = 0; y < region.height; ++y)
      convert_row(target.row(y), 3, mode, region.width, out.row(y));
  return true;
}

JpegDispatch::JpegDispatch() : state_(std::make_unique<State>()) {}
JpegDispatch::~JpegDispatch() = default;
JpegDispatch::JpegDispatch(JpegDispatch&&) noexcept = default;
JpegDispatch& JpegDispatch::operator=(JpegDispatch&&) noexcept = default;

DecodeCounts JpegDispatch::take_counts() {
  State& s = *state_;
  s.counts.warnings = s.turbo.warnings() - s.warnings_taken;
  s.warnings_taken += s.counts.warnings;
  return std::exchange(s.counts, {});
}

void JpegDispatch::set_index(FieldIndex* index) {
  state_->index = index;
}

void JpegDispatch::set_patience(Patience* patience) {
  state_->patience = patience;
  state_->turbo.set_patience(patience);
  state_->own.set_patience(patience);
  state_->packed.set_patience(patience);
}

void JpegDispatch::set_bands(BandRunner* runner) {
  state_->own.set_bands(runner);
}

Result<ImageInfo> JpegDispatch::open(std::span<const std::byte> bytes, const ImageLimits& limits) {
  State& s = *state_;
  s.index = s.entry = nullptr;
  s.ordinary = false;
  s.bytes = bytes;
  ASSIGN(const ImageInfo info, s.turbo.open(bytes, limits));
  s.gray = info.channels == 1;
  s.height = info.height;
  s.width = info.width;
  s.ordinary = own_wanted.load(std::memory_order_relaxed) &&
               s.own.recognise(as_uint8(bytes)) == jpeg::Ordinary::kOrdinary;
  return info;
}

Result<ImageInfo> JpegDispatch::open_packed(std::span<const std::byte> entry, const ImageLimits& limits,
                                            FieldIndex& field) {
  State& s = *state_;
  s.index = nullptr;
  s.entry = &field;
  s.bytes = entry;
  const bool opened = s.packed.open(as_uint8(entry));
  const jpeg::Header& header = s.packed.header();
  const coefficients::EntryFacts& facts = s.packed.facts();
  s.height = header.height;
  s.width = header.width;
  s.gray = header.component_count == 1;
  const auto pixels = static_cast<std::uint64_t>(s.height) * static_cast<std::uint64_t>(s.width);
  s.ordinary = opened && pixels <= limits.pixels_max && facts.scans <= limits.scans_max;
  if (!s.ordinary) return s.refuse_entry();
  return ImageInfo{.format = ImageFormat::kJpeg,
                   .width = s.width,
                   .height = s.height,
                   .channels = header.component_count,
                   .exif_orientation = facts.orientation,
                   .multi_scan = facts.scans > 1};
}

Status JpegDispatch::decode_region(const Region& region, ColorMode mode, const MutableImageView& out) {
  State& s = *state_;
  const bool shaped =
      out.height == region.height && out.width == region.width && out.channels == color_channels(mode);
  const bool inside = s.ordinary && region.inside(s.height, s.width);
  if (shaped && inside && s.decode_own(region, mode, out)) return {};
  if (s.given_up()) return fail(Code::kTimeout, "JPEG: given up");
  if (s.entry) return s.refuse_entry();
  ++s.counts.turbo;
  if (shaped) s.count_cost(region, s.height, false);
  return s.turbo.decode_region(region, mode, out);
}

Result<ImageView> JpegDispatch::decode_view(const Region& region, ColorMode mode) {
  State& s = *state_;
  if (s.ordinary && region.inside(s.height, s.width)) {
    const std::int64_t channels = color_channels(mode);
    const std::int64_t stride = (region.width * channels + 63) / 64 * 64;
    if (!s.plane.reserve(static_cast<std::size_t>(stride * region.height)))
      return fail(Code::kExhausted, "JPEG: no memory for the picture");
    const MutableImageView plane{s.plane.data(), region.height, region.width, channels, stride};
    if (s.decode_own(region, mode, plane)) return ImageView(plane);
    if (s.given_up()) return fail(Code::kTimeout, "JPEG: given up");
  }
  if (s.entry) return s.refuse_entry();
  ++s.counts.turbo;
  s.count_cost(region, s.height, false);
  return s.turbo.decode_view(region, mode);
}

}  // namespace carya::transforms
