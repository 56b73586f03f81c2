#include "transforms/kernels/codec/turbo_jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>

#include <jpeglib.h>

#include <fmt/core.h>
#include <jerror.h>

#include "transforms/kernels/codec/color_rows.h"
#include "transforms/kernels/codec/exif.h"
#include "transforms/kernels/codec/jpeg_idct.h"
#include "transforms/kernels/codec/jpeg_memory.h"
#include "transforms/kernels/image/row_buffer.h"

namespace carya::transforms {
namespace {

constexpr int kRowsPerCall = 16;
// Below three chroma columns the library upsamples plainly. Source: libjpeg-turbo 2.1.5, jdsample.c,
// jinit_upsampler.
constexpr std::int64_t kColumnsMin = 8;
// The library streams rows past the cache where they are aligned for it (jdcolext-avx2.asm), but they are
// read again at once: rows off the grid stay in the cache. Measured: 80 us of 870 per ImageNet photo.
constexpr std::size_t kOffGrid = 8;
const JOCTET kFakeEnd[2] = {0xFF, JPEG_EOI};

struct Columns {
  std::int64_t first, count;
};

/// Where rows go: the region's pixels, or (whole_rows) all columns that were asked for.
struct RowTarget {
  MutableImageView out;
  ColorMode mode;
  bool whole_rows;
};

std::size_t count_pairs(std::span<const std::byte> bytes, unsigned char second) {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  const unsigned char* end = at + bytes.size();
  std::size_t count = 0;
  while (at + 1 < end &&
         (at = static_cast<const unsigned char*>(std::memchr(at, 0xFF, end - at - 1))) != nullptr) {
    if (at[1] == second) ++count;
    ++at;
  }
  return count;
}

}  // namespace

bool has_end_marker(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t n = bytes.size();
  while (n > 1) {
    const void* hit = memrchr(data + 1, JPEG_EOI, n - 1);
    if (hit == nullptr) return false;
    n = static_cast<std::size_t>(static_cast<const unsigned char*>(hit) - data);
    if (data[n - 1] == 0xFF) return true;
  }
  return false;
}

const char* jpeg_turbo_version() {
#define CARYA_TEXT_INNER(x) #x
#define CARYA_TEXT(x) CARYA_TEXT_INNER(x)
  return "libjpeg-turbo " CARYA_TEXT(LIBJPEG_TURBO_VERSION);
}

struct TurboJpeg::State {
  jpeg_decompress_struct cinfo{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  Patience* patience = nullptr;
  std::jmp_buf jump;
  JpegMemory memory;
  std::span<const std::byte> bytes;
  ImageInfo info;
  int orientation = 1;
  bool orientation_seen = false;
  bool opened = false;       // bytes and info are of an accepted picture
  bool header_read = false;  // cinfo stands behind the header of bytes
  std::uint64_t warnings = 0;
  std::uint64_t warnings_before = 0;  // the picture was opened
  std::uint16_t scans = 1;            // of the picture, as far as they are counted
  jpeg::Header shape;                 // of the picture whose coefficients are packed
  RowBuffer rows;                     // kRowsPerCall rows as the library gives them
  RowBuffer plane;                    // what decode_view() gives out

  State();
  ~State();

  // Runs `work`, from which the library may jump out; false then. Nothing in `work` may need a destructor.
  template <typename Work>
  bool guarded(const Work& work) {
    if (setjmp(jump) != 0) return false;
    work();
    return true;
  }
  std::unexpected<Error> refused();
  bool read_header();
  std::span<const std::byte> rest() const;
  bool exact_region_route() const;
  void choose_colors(ColorMode mode);
  Status check(const Region& region) const;
  Status start(ColorMode mode);
  Columns columns_of(const Region& region) const;
  bool run(const Region& region, const Columns& columns, const RowTarget& target);
  bool find_shape();
  void read_rows(const Region& region, const Columns& columns, const RowTarget& target,
                 std::int64_t first_row);
};

namespace {

TurboJpeg::State& state_of(j_common_ptr cinfo) {
  return *static_cast<TurboJpeg::State*>(cinfo->client_data);
}

void on_error(j_common_ptr cinfo) {
  std::longjmp(state_of(cinfo).jump, 1);
}

void on_message(j_common_ptr cinfo, int level) {
  if (level < 0) ++state_of(cinfo).warnings;
}

void on_output(j_common_ptr) {}

// After each row of blocks that was read of a scan, and before rows are given out.
void on_progress(j_common_ptr cinfo) {
  const auto& decoding = *reinterpret_cast<const jpeg_decompress_struct*>(cinfo);
  constexpr std::int64_t kBlockRows = 16;
  const std::int64_t work = std::int64_t{decoding.image_width} * decoding.num_components * kBlockRows;
  if (!goes_on(state_of(cinfo).patience, work)) std::longjmp(state_of(cinfo).jump, 1);
}

void start_source(j_decompress_ptr) {}

boolean fill_source(j_decompress_ptr cinfo) {
  ++state_of(reinterpret_cast<j_common_ptr>(cinfo)).warnings;
  cinfo->src->next_input_byte = kFakeEnd;
  cinfo->src->bytes_in_buffer = sizeof(kFakeEnd);
  return TRUE;
}

void skip_source(j_decompress_ptr cinfo, long count) {
  jpeg_source_mgr& source = *cinfo->src;
  if (count <= 0) return;
  const std::size_t n = static_cast<std::size_t>(count);
  if (n > source.bytes_in_buffer) {
    fill_source(cinfo);
    return;
  }
  source.next_input_byte += n;
  source.bytes_in_buffer -= n;
}

// APP1: read in place, so that a large thumbnail costs neither memory nor a copy.
boolean on_app1(j_decompress_ptr cinfo) {
  jpeg_source_mgr& source = *cinfo->src;
  if (source.bytes_in_buffer < 2) return fill_source(cinfo);
  const std::size_t length = (std::size_t{source.next_input_byte[0]} << 8) | source.next_input_byte[1];
  TurboJpeg::State& state = state_of(reinterpret_cast<j_common_ptr>(cinfo));
  if (length < 2) {
    cinfo->err->msg_code = JERR_BAD_LENGTH;
    (*cinfo->err->error_exit)(reinterpret_cast<j_common_ptr>(cinfo));
  }
  if (length <= source.bytes_in_buffer && !state.orientation_seen) {
    const auto payload = std::as_bytes(std::span(source.next_input_byte + 2, length - 2));
    if (is_exif(payload)) {
      state.orientation = exif_orientation(payload);
      state.orientation_seen = true;
    }
  }
  skip_source(cinfo, static_cast<long>(length));
  return TRUE;
}

}  // namespace

TurboJpeg::State::State() {
  cinfo.err = jpeg_std_error(&errors);
  errors.error_exit = on_error;
  errors.emit_message = on_message;
  errors.output_message = on_output;
  cinfo.client_data = this;
  CHECK(guarded([this] {
    jpeg_create_decompress(&cinfo);
    jpeg_set_marker_processor(&cinfo, JPEG_APP0 + 1, on_app1);
  }));
  memory.attach(reinterpret_cast<j_common_ptr>(&cinfo));
  source.init_source = start_source;
  source.fill_input_buffer = fill_source;
  source.skip_input_data = skip_source;
  source.resync_to_restart = jpeg_resync_to_restart;
  source.term_source = start_source;
  cinfo.src = &source;
  progress.progress_monitor = on_progress;
  cinfo.progress = &progress;
}

TurboJpeg::State::~State() {
  memory.detach(reinterpret_cast<j_common_ptr>(&cinfo));
  jpeg_destroy_decompress(&cinfo);
}

std::unexpected<Error> TurboJpeg::State::refused() {
  char text[JMSG_LENGTH_MAX];
  (*errors.format_message)(reinterpret_cast<j_common_ptr>(&cinfo), text);
  header_read = false;
  const bool exhausted = memory.take_exhausted();
  if (patience != nullptr && patience->given_up()) return fail(Code::kTimeout, "JPEG: given up");
  if (exhausted) return fail(Code::kExhausted, "JPEG: no memory for the picture");
  return fail(Code::kCorrupt, std::string("JPEG: ") + text);
}

bool TurboJpeg::State::read_header() {
  // A picture without tables of its own must not get those of the one before.
  for (auto& table : cinfo.quant_tbl_ptrs) table = nullptr;
  for (auto& table : cinfo.dc_huff_tbl_ptrs) table = nullptr;
  for (auto& table : cinfo.ac_huff_tbl_ptrs) table = nullptr;
  orientation = 1;
  orientation_seen = false;
  return guarded([this] {
    jpeg_abort_decompress(&cinfo);
    memory.reset_permanent();
    source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source.bytes_in_buffer = bytes.size();
    (void)jpeg_read_header(&cinfo, TRUE);
    header_read = true;
  });
}

// What follows the header: empty when the library had to be fed the made-up end.
std::span<const std::byte> TurboJpeg::State::rest() const {
  const auto* next = reinterpret_cast<const std::byte*>(source.next_input_byte);
  const bool made_up =
      source.next_input_byte >= kFakeEnd && source.next_input_byte <= kFakeEnd + sizeof(kFakeEnd);
  return made_up ? std::span<const std::byte>() : std::span(next, source.bytes_in_buffer);
}

// Cropped columns and skipped rows give the same bits for one-scan files with the usual sampling factors.
bool TurboJpeg::State::exact_region_route() const {
  if (info.multi_scan) return false;
  for (int c = 0; c < cinfo.num_components; ++c) {
    if (cinfo.comp_info[c].h_samp_factor > 2 || cinfo.comp_info[c].v_samp_factor > 2) return false;
  }
  return true;
}

void TurboJpeg::State::choose_colors(ColorMode mode) {
  switch (cinfo.jpeg_color_space) {
    case JCS_CMYK:
    case JCS_YCCK:
      cinfo.out_color_space = JCS_CMYK;
      break;
    case JCS_GRAYSCALE:
      cinfo.out_color_space = mode == ColorMode::kRgb ? JCS_RGB : JCS_GRAYSCALE;
      break;
    default:
      cinfo.out_color_space = JCS_RGB;
      break;
  }
  cinfo.dct_method = JDCT_ISLOW;
  cinfo.do_fancy_upsampling = TRUE;
}

Status TurboJpeg::State::check(const Region& region) const {
  if (!opened) return fail(Code::kInvalidArgument, "JPEG: decode_region without an opened picture");
  if (region.inside(info.height, info.width)) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("JPEG: region outside of {} x {}", info.height, info.width));
}

Status TurboJpeg::State::start(ColorMode mode) {
  if (!header_read && !read_header()) return refused();
  header_read = false;
  choose_colors(mode);
  if (!guarded([this] { (void)jpeg_start_decompress(&cinfo); })) return refused();
  if constexpr (kOwnInverseDct) use_own_inverse_dct(cinfo);
  const std::size_t row_bytes = static_cast<std::size_t>(cinfo.output_width) * cinfo.output_components;
  if (!rows.reserve(kOffGrid + row_bytes * kRowsPerCall))
    return fail(Code::kExhausted, "JPEG: no memory for rows");
  return {};
}

// The columns to ask for: one beside the region on both sides, because smooth upsampling looks at its
// neighbours.
Columns TurboJpeg::State::columns_of(const Region& region) const {
  if (!exact_region_route()) return {0, info.width};
  std::int64_t left = region.left > 0 ? region.left - 1 : 0;
  std::int64_t right = std::min(region.left + region.width + 1, info.width);
  if (right - left < kColumnsMin) {
    right = std::min(left + kColumnsMin, info.width);
    left = std::max<std::int64_t>(right - kColumnsMin, 0);
  }
  // The library starts at a whole block of the picture; saying so ourselves tells the width beforehand.
  const std::int64_t grid = std::int64_t{cinfo.max_h_samp_factor} * cinfo.min_DCT_scaled_size;
  left -= left % grid;
  return {left, right - left};
}

void TurboJpeg::State::read_rows(const Region& region, const Columns& columns, const RowTarget& target,
                                 std::int64_t first_row) {
  const std::int64_t components = cinfo.output_components;
  const std::int64_t stride = columns.count * components;
  const bool exact_columns = columns.first == region.left && columns.count == region.width;
  const bool direct = components == target.out.channels && (target.whole_rows || exact_columns);
  std::uint8_t* scratch = rows.data() + kOffGrid;
  JSAMPROW pointers[kRowsPerCall];
  std::int64_t y = first_row;
  while (y < region.top + region.height) {
    const std::int64_t until = y < region.top ? region.top : region.top + region.height;
    const std::int64_t count = std::min<std::int64_t>(until - y, kRowsPerCall);
    const bool to_out = direct && y >= region.top;
    for (std::int64_t i = 0; i < count; ++i) {
      pointers[i] = to_out ? target.out.row(y - region.top + i) : scratch + i * stride;
    }
    const std::int64_t got = jpeg_read_scanlines(&cinfo, pointers, static_cast<JDIMENSION>(count));
    if (!to_out && y >= region.top) {
      const std::int64_t skip = target.whole_rows ? 0 : region.left - columns.first;
      for (std::int64_t i = 0; i < got; ++i) {
        convert_row(pointers[i] + skip * components, static_cast<int>(components), target.mode,
                    target.out.width, target.out.row(y - region.top + i));
      }
    }
    y += got;
  }
}

bool TurboJpeg::State::run(const Region& region, const Columns& columns, const RowTarget& target) {
  return guarded([&] {
    JDIMENSION first_row = 0;
    if (exact_region_route()) {
      auto first_column = static_cast<JDIMENSION>(columns.first);
      auto count = static_cast<JDIMENSION>(columns.count);
      if (count < cinfo.output_width) jpeg_crop_scanline(&cinfo, &first_column, &count);
      CHECK(first_column == columns.first && count == columns.count);
      // Skips end on an even row: libjpeg-turbo issue 915.
      first_row = static_cast<JDIMENSION>(region.top & ~std::int64_t{1});
      if (first_row > 0) (void)jpeg_skip_scanlines(&cinfo, first_row);
    }
    read_rows(region, columns, target, first_row);
    jpeg_abort_decompress(&cinfo);
  });
}

TurboJpeg::TurboJpeg() : state_(std::make_unique<State>()) {}
TurboJpeg::~TurboJpeg() = default;
TurboJpeg::TurboJpeg(TurboJpeg&&) noexcept = default;
TurboJpeg& TurboJpeg::operator=(TurboJpeg&&) noexcept = default;

void TurboJpeg::set_patience(Patience* patience) {
  state_->patience = patience;
}

std::uint64_t TurboJpeg::warnings() const {
  return state_->warnings;
}

Result<ImageInfo> TurboJpeg::open(std::span<const std::byte> bytes, const ImageLimits& limits) {
  State& s = *state_;
  s.opened = false;
  s.bytes = bytes;
  s.scans = 1;
  s.warnings_before = s.warnings;
  if (!s.read_header()) return s.refused();
  const std::uint64_t pixels = std::uint64_t{s.cinfo.image_width} * s.cinfo.image_height;
  if (pixels > limits.pixels_max) {
    return fail(Code::kCorrupt, fmt::format("JPEG: {} x {} pixels are over the limit of {}",
                                            s.cinfo.image_width, s.cinfo.image_height, limits.pixels_max));
  }
  const auto rest = s.rest();
  if (!has_end_marker(rest))
    return fail(Code::kCorrupt, "JPEG: truncated: no end marker after the first scan");
  s.info = {.format = ImageFormat::kJpeg,
            .width = s.cinfo.image_width,
            .height = s.cinfo.image_height,
            .channels = s.cinfo.num_components,
            .exif_orientation = s.orientation,
            .multi_scan = jpeg_has_multiple_scans(&s.cinfo) != FALSE};
  if (s.info.multi_scan) {
    const std::size_t scans = 1 + count_pairs(rest, 0xDA);
    if (scans > limits.scans_max) {
      return fail(Code::kCorrupt,
                  fmt::format("JPEG: {} scans are over the limit of {}", scans, limits.scans_max));
    }
    s.scans = static_cast<std::uint16_t>(std::min<std::size_t>(scans, UINT16_MAX));
  }
  s.opened = true;
  return s.info;
}

Status TurboJpeg::decode_region(const Region& region, ColorMode mode, const MutableImageView& out) {
  State& s = *state_;
  TRY(s.check(region));
  if (out.height != region.height || out.width != region.width || out.channels != color_channels(mode)) {
    return fail(Code::kInvalidArgument, "JPEG: out is not of the region's shape");
  }
  TRY(s.start(mode));
  if (!s.run(region, s.columns_of(region), {out, mode, false})) return s.refused();
  return {};
}

Result<ImageView> TurboJpeg::decode_view(const Region& region, ColorMode mode) {
  State& s = *state_;
  TRY(s.check(region));
  TRY(s.start(mode));
  const Columns columns = s.columns_of(region);
  const std::int64_t channels = color_channels(mode);
  const std::int64_t stride = (columns.count * channels + 63) / 64 * 64;
  if (!s.plane.reserve(kOffGrid + static_cast<std::size_t>(stride * region.height))) {
    return fail(Code::kExhausted, "JPEG: no memory for the picture");
  }
  const MutableImageView plane{s.plane.data() + kOffGrid, region.height, columns.count, channels, stride};
  if (!s.run(region, columns, {plane, mode, true})) return s.refused();
  return crop_view(plane, {0, region.left - columns.first, region.height, region.width});
}

// Describe the picture as an ordinary file's header would. Its scans have been read.
bool TurboJpeg::State::find_shape() {
  shape = {};
  shape.width = static_cast<int>(cinfo.image_width);
  shape.height = static_cast<int>(cinfo.image_height);
  shape.component_count = cinfo.num_components;
  const bool gray = cinfo.num_components == 1 && cinfo.jpeg_color_space == JCS_GRAYSCALE;
  if (!gray && (cinfo.num_components != 3 || cinfo.jpeg_color_space != JCS_YCbCr)) return false;
  for (int c = 0; c < cinfo.num_components; ++c) {
    const jpeg_component_info& from = cinfo.comp_info[c];
    if (from.quant_table == nullptr) return false;  // no scan has the component
    jpeg::Component& to = shape.components[c];
    to.h = static_cast<std::uint8_t>(from.h_samp_factor);
    to.v = static_cast<std::uint8_t>(from.v_samp_factor);
    to.quant = static_cast<std::uint8_t>(c);
    std::copy_n(from.quant_table->quantval, 64, shape.quant[c].begin());
  }
  return jpeg::settle_geometry(shape) == jpeg::Ordinary::kOrdinary;
}

Result<bool> TurboJpeg::pack(coefficients::Packer& packer, std::size_t bytes_max) {
  State& s = *state_;
  if (!s.opened) return fail(Code::kInvalidArgument, "JPEG: pack without an opened picture");
  if (!s.header_read && !s.read_header()) return s.refused();
  s.header_read = false;
  jvirt_barray_ptr* arrays = nullptr;
  if (!s.guarded([&] { arrays = jpeg_read_coefficients(&s.cinfo); })) return s.refused();
  const auto finish = [&] { return s.guarded([&] { jpeg_abort_decompress(&s.cinfo); }); };
  if (s.warnings != s.warnings_before || !s.find_shape()) {
    finish();
    return false;
  }
  packer.begin(s.shape,
               {.file_bytes = static_cast<std::uint32_t>(s.bytes.size()),
                .scans = s.scans,
                .orientation = static_cast<std::uint8_t>(s.info.exif_orientation)},
               bytes_max);
  for (int mcu_y = 0; mcu_y < s.shape.mcu_rows; ++mcu_y) {
    for (int c = 0; c < s.shape.component_count; ++c) {
      const jpeg::Component& component = s.shape.components[c];
      const int end = std::min((mcu_y + 1) * component.v, coefficients::block_rows(component));
      for (int y = mcu_y * component.v; y < end; ++y) {
        JBLOCKARRAY row = nullptr;
        if (!s.guarded([&] {
              row = (*s.cinfo.mem->access_virt_barray)(reinterpret_cast<j_common_ptr>(&s.cinfo), arrays[c],
                                                       static_cast<JDIMENSION>(y), 1, FALSE);
            }))
          return s.refused();
        packer.take_blocks(c, y, row[0][0]);
      }
    }
  }
  finish();
  return true;
}

}  // namespace carya::transforms
