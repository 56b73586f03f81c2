#include "transforms/kernels/codec/png.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <string>

#include <fmt/core.h>
#include <spng.h>

#include "transforms/kernels/codec/color_rows.h"
#include "transforms/kernels/codec/exif.h"
#include "transforms/kernels/codec/png_rows.h"
#include "transforms/kernels/image/arena.h"
#include "transforms/kernels/image/row_buffer.h"

namespace carya::transforms {
namespace {

constexpr std::size_t kPieceHeader = 64;  // holds the size, for realloc; keeps the alignment
constexpr std::size_t kChunkBytesMax = std::size_t{16} << 20;  // one chunk of metadata, also unpacked
constexpr std::size_t kChunksBytesMax = std::size_t{64} << 20;
constexpr int kGivenUp = INT_MIN;  // none of the library's numbers: nobody wants the picture any more
constexpr int kNotOurs = INT_MIN + 1;
constexpr std::int64_t kViewBytesMax = 512 << 10;  // what is in the cache when it has been unpacked
constexpr std::int64_t kInflate = 8;               // a byte of a row takes as long as this many of a resize

// libspng's allocation hooks carry no context: the arena of the call that is running on this thread.
thread_local Arena* running_arena = nullptr;

class ArenaScope {
 public:
  explicit ArenaScope(Arena* arena) : before_(running_arena) { running_arena = arena; }
  ~ArenaScope() { running_arena = before_; }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena* before_;
};

void* take(std::size_t bytes) {
  auto* piece = static_cast<std::byte*>(running_arena->allocate(bytes + kPieceHeader));
  if (piece == nullptr) return nullptr;
  std::memcpy(piece, &bytes, sizeof(bytes));
  return piece + kPieceHeader;
}

void* take_again(void* old, std::size_t bytes) {
  void* piece = take(bytes);
  if (old == nullptr || piece == nullptr) return piece;
  std::size_t old_bytes = 0;
  std::memcpy(&old_bytes, static_cast<std::byte*>(old) - kPieceHeader, sizeof(old_bytes));
  std::memcpy(piece, old, old_bytes < bytes ? old_bytes : bytes);
  return piece;
}

void* take_many(std::size_t count, std::size_t bytes) {
  std::size_t total = 0;
  if (__builtin_mul_overflow(count, bytes, &total)) return nullptr;
  return take(total);
}

void leave(void*) {}

// Sample i of a row of 1, 2, 4, 8 or 16 bit samples; of 16 bits the high byte.
std::uint8_t sample(const std::uint8_t* row, std::int64_t i, int bits) {
  if (bits == 8) return row[i];
  if (bits == 16) return row[2 * i];
  const std::int64_t bit = i * bits;
  return static_cast<std::uint8_t>((row[bit >> 3] >> (8 - bits - (bit & 7))) & ((1 << bits) - 1));
}

}  // namespace

const char* png_version() {
#define CARYA_TEXT_INNER(x) #x
#define CARYA_TEXT(x) CARYA_TEXT_INNER(x)
  return "libspng " CARYA_TEXT(SPNG_VERSION_MAJOR) "." CARYA_TEXT(SPNG_VERSION_MINOR) "." CARYA_TEXT(
      SPNG_VERSION_PATCH);
}

struct PngReader::State {
  Arena arena;
  spng_ctx* context = nullptr;  // lives in the arena
  Patience* patience = nullptr;
  std::span<const std::byte> bytes;
  ImageInfo info;
  spng_ihdr header{};
  std::array<std::array<std::uint8_t, 3>, 256> palette{};
  PngRows rows;
  RowBuffer raw;       // rows as stored: two, or one by libspng, or the whole picture when interlaced
  RowBuffer plane;     // what decode_view() gives out
  RowBuffer expanded;  // one row of 8-bit samples
  bool opened = false;
  bool fresh = false;  // context stands before the image data

  ~State() { drop_context(); }
  void drop_context();
  int start();
  int read_palette();
  void emit(const std::uint8_t* row, const Region& region, ColorMode mode, std::uint8_t* out);
  std::size_t stored_row_bytes() const;
  int view_all(const Region& region, ColorMode mode, ImageView& view);
  int decode_ordinary(const Region& region, ColorMode mode, const MutableImageView& out);
  int decode_rows(const Region& region, ColorMode mode, const MutableImageView& out);
};

void PngReader::State::drop_context() {
  const ArenaScope scope(&arena);
  if (context != nullptr) spng_ctx_free(context);
  context = nullptr;
  fresh = false;
}

// A new context that has read everything before the image data.
int PngReader::State::start() {
  drop_context();
  arena.reset();
  const ArenaScope scope(&arena);
  spng_alloc hooks{take, take_again, take_many, leave};
  context = spng_ctx_new2(&hooks, 0);
  if (context == nullptr) return SPNG_EMEM;
  int status = spng_set_crc_action(context, SPNG_CRC_ERROR, SPNG_CRC_ERROR);
  if (status == 0) status = spng_set_chunk_limits(context, kChunkBytesMax, kChunksBytesMax);
  if (status == 0) status = spng_set_png_buffer(context, bytes.data(), bytes.size());
  if (status == 0) status = spng_get_ihdr(context, &header);
  if (status != 0) return status;
  fresh = true;
  return 0;
}

int PngReader::State::read_palette() {
  for (unsigned i = 0; i < palette.size(); ++i) palette[i].fill(static_cast<std::uint8_t>(i));
  if (header.color_type != SPNG_COLOR_TYPE_INDEXED) return 0;
  spng_plte entries{};
  const int status = spng_get_plte(context, &entries);
  if (status != 0) return status;
  for (std::uint32_t i = 0; i < entries.n_entries && i < palette.size(); ++i) {
    palette[i] = {entries.entries[i].red, entries.entries[i].green, entries.entries[i].blue};
  }
  return 0;
}

void PngReader::State::emit(const std::uint8_t* row, const Region& region, ColorMode mode,
                            std::uint8_t* out) {
  const int bits = header.bit_depth;
  std::uint8_t* wide = expanded.data();
  const std::int64_t first = region.left;
  if (header.color_type == SPNG_COLOR_TYPE_INDEXED) {
    for (std::int64_t x = 0; x < region.width; ++x) {
      std::memcpy(wide + 3 * x, palette[sample(row, first + x, bits)].data(), 3);
    }
    convert_row(wide, 3, mode, region.width, out);
    return;
  }
  const int stored = info.channels;
  const int kept = stored <= 2 ? 1 : 3;  // without alpha
  if (bits == 8 && kept == stored) {
    convert_row(row + first * stored, kept, mode, region.width, out);
    return;
  }
  const int stretch = bits < 8 ? 255 / ((1 << bits) - 1) : 1;
  for (std::int64_t x = 0; x < region.width; ++x) {
    for (int c = 0; c < kept; ++c) {
      wide[kept * x + c] = static_cast<std::uint8_t>(stretch * sample(row, (first + x) * stored + c, bits));
    }
  }
  convert_row(wide, kept, mode, region.width, out);
}

std::size_t PngReader::State::stored_row_bytes() const {
  return (static_cast<std::size_t>(header.width) *
              static_cast<std::size_t>(info.channels * header.bit_depth) +
          7) /
         8;
}

// By our own unpacking. kNotOurs: libspng has to read the picture; its context is as it was.
int PngReader::State::decode_ordinary(const Region& region, ColorMode mode, const MutableImageView& out) {
  const std::size_t row_bytes = stored_row_bytes();
  const auto pixel_bytes = static_cast<std::size_t>(std::max(1, info.channels * header.bit_depth / 8));
  if (header.interlace_method != 0 || !rows.begin(bytes, row_bytes, pixel_bytes, header.height))
    return kNotOurs;
  // Whole rows that are stored as they are wanted need no row of their own.
  const bool as_wanted = header.bit_depth == 8 && header.color_type != SPNG_COLOR_TYPE_INDEXED &&
                         info.channels == out.channels && region.width == info.width;
  const std::size_t stride = row_bytes + RowBuffer::kBefore;
  if (!raw.reserve(2 * stride) || !expanded.reserve(static_cast<std::size_t>(region.width) * 3))
    return SPNG_EMEM;
  const std::uint8_t* above = nullptr;
  for (std::int64_t y = 0; y < info.height; ++y) {
    const bool inside = y >= region.top && y < region.top + region.height;
    std::uint8_t* row =
        inside && as_wanted ? out.row(y - region.top) : raw.data() + static_cast<std::size_t>(y % 2) * stride;
    if (!rows.next(above, row)) return kNotOurs;
    if (inside && !as_wanted) emit(row, region, mode, out.row(y - region.top));
    above = row;
    if (!goes_on(patience, static_cast<std::int64_t>(row_bytes) * kInflate)) return kGivenUp;
  }
  return 0;
}

// All of a small gray picture, where it was unpacked. kNotOurs: decode_region() has to be asked.
int PngReader::State::view_all(const Region& region, ColorMode mode, ImageView& view) {
  if (!opened || header.interlace_method != 0 || header.bit_depth != 8 ||
      header.color_type != SPNG_COLOR_TYPE_GRAYSCALE || mode != ColorMode::kL ||
      !(region == Region{0, 0, info.height, info.width}) || info.height * info.width > kViewBytesMax) {
    return kNotOurs;
  }
  const std::uint8_t* pixels = rows.all(bytes, stored_row_bytes(), header.height);
  if (pixels == nullptr) return kNotOurs;
  view = {pixels, info.height, info.width, 1, info.width + 1};
  return goes_on(patience, info.height * info.width * kInflate) ? 0 : kGivenUp;
}

int PngReader::State::decode_rows(const Region& region, ColorMode mode, const MutableImageView& out) {
  const std::size_t row_bytes = stored_row_bytes();
  const bool interlaced = header.interlace_method != 0;
  if (!raw.reserve(interlaced ? row_bytes * header.height : row_bytes) ||
      !expanded.reserve(static_cast<std::size_t>(region.width) * 3)) {
    return SPNG_EMEM;
  }
  const auto inside = [&](std::int64_t y) { return y >= region.top && y < region.top + region.height; };
  if (interlaced) {
    // Below 8 bits the library adds each pass's bits to what is there.
    std::memset(raw.data(), 0, row_bytes * header.height);
    int status = spng_decode_image(context, nullptr, 0, SPNG_FMT_RAW, SPNG_DECODE_PROGRESSIVE);
    while (status == 0) {
      spng_row_info row{};
      status = spng_get_row_info(context, &row);
      if (status == 0) status = spng_decode_row(context, raw.data() + row.row_num * row_bytes, row_bytes);
      if (!goes_on(patience, static_cast<std::int64_t>(row_bytes) * kInflate)) return kGivenUp;
    }
    if (status != SPNG_EOI) return status;
    for (std::int64_t y = region.top; inside(y); ++y) {
      emit(raw.data() + static_cast<std::size_t>(y) * row_bytes, region, mode, out.row(y - region.top));
    }
    return 0;
  }
  int status = spng_decode_image(context, nullptr, 0, SPNG_FMT_RAW, SPNG_DECODE_PROGRESSIVE);
  for (std::int64_t y = 0; status == 0; ++y) {
    status = spng_decode_row(context, raw.data(), row_bytes);
    if ((status == 0 || status == SPNG_EOI) && inside(y))
      emit(raw.data(), region, mode, out.row(y - region.top));
    if (!goes_on(patience, static_cast<std::int64_t>(row_bytes) * kInflate)) return kGivenUp;
  }
  return status == SPNG_EOI ? 0 : status;
}

namespace {

std::unexpected<Error> refused(int status) {
  if (status == kGivenUp) return fail(Code::kTimeout, "PNG: given up");
  return fail(status == SPNG_EMEM ? Code::kExhausted : Code::kCorrupt,
              std::string("PNG: ") + spng_strerror(status));
}

int channels_of(std::uint8_t color_type) {
  switch (color_type) {
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
      return 2;
    case SPNG_COLOR_TYPE_TRUECOLOR:
      return 3;
    case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
      return 4;
    default:
      return 1;
  }
}

}  // namespace

void PngReader::set_patience(Patience* patience) {
  state_->patience = patience;
}

PngReader::PngReader() : state_(std::make_unique<State>()) {}
PngReader::~PngReader() = default;
PngReader::PngReader(PngReader&&) noexcept = default;
PngReader& PngReader::operator=(PngReader&&) noexcept = default;

Result<ImageInfo> PngReader::open(std::span<const std::byte> bytes, const ImageLimits& limits) {
  State& s = *state_;
  s.opened = false;
  s.bytes = bytes;
  if (const int status = s.start(); status != 0) return refused(status);
  const std::uint64_t pixels = std::uint64_t{s.header.width} * s.header.height;
  if (pixels > limits.pixels_max) {
    return fail(Code::kCorrupt, fmt::format("PNG: {} x {} pixels are over the limit of {}", s.header.width,
                                            s.header.height, limits.pixels_max));
  }
  const ArenaScope scope(&s.arena);
  spng_exif exif{};
  const int status = spng_get_exif(s.context, &exif);
  if (status != 0 && status != SPNG_ECHUNKAVAIL) return refused(status);
  s.info = {.format = ImageFormat::kPng,
            .width = s.header.width,
            .height = s.header.height,
            .channels = channels_of(s.header.color_type),
            .exif_orientation =
                status == 0 ? tiff_orientation(std::as_bytes(std::span(exif.data, exif.length))) : 1,
            .multi_scan = true};
  s.opened = true;
  return s.info;
}

Status PngReader::decode_region(const Region& region, ColorMode mode, const MutableImageView& out) {
  State& s = *state_;
  if (!s.opened) return fail(Code::kInvalidArgument, "PNG: decode_region without an opened picture");
  if (!region.inside(s.info.height, s.info.width)) {
    return fail(Code::kInvalidArgument,
                fmt::format("PNG: region outside of {} x {}", s.info.height, s.info.width));
  }
  if (out.height != region.height || out.width != region.width || out.channels != color_channels(mode)) {
    return fail(Code::kInvalidArgument, "PNG: out is not of the region's shape");
  }
  int status = s.fresh ? 0 : s.start();
  const ArenaScope scope(&s.arena);
  if (status == 0) status = s.read_palette();
  if (status == 0) status = s.decode_ordinary(region, mode, out);
  if (status == kNotOurs) {
    s.fresh = false;
    status = s.decode_rows(region, mode, out);
  }
  if (status != 0) return refused(status);
  return {};
}

Result<ImageView> PngReader::decode_view(const Region& region, ColorMode mode) {
  State& s = *state_;
  const std::int64_t channels = color_channels(mode);
  if (!region.inside(s.info.height, s.info.width)) return fail(Code::kInvalidArgument, "PNG: region outside");
  ImageView view;
  const int status = s.view_all(region, mode, view);
  if (status == 0) return view;
  if (status != kNotOurs) return refused(status);
  if (!s.plane.reserve(static_cast<std::size_t>(region.height * region.width * channels))) {
    return fail(Code::kExhausted, "PNG: no memory for the picture");
  }
  const MutableImageView out{s.plane.data(), region.height, region.width, channels, region.width * channels};
  TRY(decode_region(region, mode, out));
  return out;
}

}  // namespace carya::transforms
