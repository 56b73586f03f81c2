#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace carya::jpeg {

/// Why a file is left to libjpeg-turbo. kOrdinary means that our own decoder takes it.
enum class Ordinary : std::uint8_t {
  kOrdinary,
  kNotJpeg,      ///< no SOI, garbage between markers, or a marker segment that is cut, too long or unexpected
  kProgressive,  ///< any frame that is not 8-bit sequential Huffman
  kPrecision,    ///< not 8 bits per sample
  kSize,         ///< a side of 0 (DNL) or over 65,500
  kColour,       ///< RGB-coded, CMYK, YCCK, an unknown Adobe transform, two or more than three components
  kSampling,     ///< neither 4:4:4, 4:2:2, 4:2:0 nor gray
  kNarrow,       ///< subsampled chroma of at most two columns, which libjpeg-turbo upsamples in another way
  kSeveralScans,  ///< the first scan lacks a component, has them out of order, or is not a whole sequential one
  kTables,  ///< a Huffman or quantisation table is missing, malformed or beyond the range of our multiplications
};

/// The name of a reason for statistics and logs: "progressive", "colour", ...
std::string_view ordinary_name(Ordinary reason);

inline constexpr int kSideMax = 65500;  ///< JPEG_MAX_DIMENSION of libjpeg-turbo

enum class Sampling : std::uint8_t { kGray, k444, k422, k420 };

struct Component {
  std::uint8_t id = 0;
  std::uint8_t h = 1;      ///< width of one MCU in blocks
  std::uint8_t v = 1;      ///< height of one MCU in blocks
  std::uint8_t quant = 0;  ///< index of the quantisation table
  std::uint8_t dc = 0;     ///< index of the DC Huffman table
  std::uint8_t ac = 0;
  int width = 0;  ///< samples without the padding to whole blocks
  int height = 0;
};

/// A Huffman table as the file defines it: 16 counts, then the symbols. Points into the file.
struct HuffmanSpec {
  const std::uint8_t* bytes = nullptr;  ///< null: not defined
  int symbol_count = 0;
};

/// The parts of everything before the scan that the decoder needs.
struct Header {
  int width = 0;
  int height = 0;
  Sampling sampling = Sampling::kGray;
  int component_count = 0;
  int mcu_cols = 0;
  int mcu_rows = 0;
  int restart_interval = 0;  ///< MCUs; 0: none
  std::array<Component, 3> components;
  std::array<std::array<std::uint16_t, 64>, 4> quant;  ///< natural order; set if a component names it
  std::array<HuffmanSpec, 4> dc;
  std::array<HuffmanSpec, 4> ac;
  std::size_t scan_begin = 0;  ///< offset of the first entropy-coded byte
};

/// The natural position of the k-th coefficient in zigzag order. Source: T.81 figure A.6.
inline constexpr std::array<std::uint8_t, 64> kZigzag = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

/// Read everything up to the scan. On kOrdinary, `header` is filled and points into `bytes`; otherwise it is
/// unspecified. The check is strict: a file is not ordinary if libjpeg-turbo would warn about anything or treat it in a
/// special way.
///
/// Threads: thread-safe.
/// Cost:    ~1 us; allocates nothing.
/// Source:  T.81 annex B; tests/jpeg/header_test.cc compares with libjpeg-turbo.
Ordinary read_header(std::span<const std::uint8_t> bytes, Header& header);

/// Derive sampling, MCUs and the components' sizes from width, height, and the number of components with their factors
/// (1..4). Errors: kSampling, kNarrow.
Ordinary settle_geometry(Header& header);

}  // namespace carya::jpeg
