#include "transforms/jpeg/header.h"

#include <algorithm>
#include <cstring>

namespace carya::jpeg {

std::string_view ordinary_name(Ordinary reason) {
  switch (reason) {
    case Ordinary::kOrdinary:
      return "ordinary";
    case Ordinary::kNotJpeg:
      return "not a plain JPEG";
    case Ordinary::kProgressive:
      return "progressive or other process";
    case Ordinary::kPrecision:
      return "precision";
    case Ordinary::kSize:
      return "size";
    case Ordinary::kColour:
      return "colour";
    case Ordinary::kSampling:
      return "sampling";
    case Ordinary::kNarrow:
      return "narrow";
    case Ordinary::kSeveralScans:
      return "several scans";
    case Ordinary::kTables:
      return "tables";
  }
  return "unknown";
}

namespace {

constexpr int kQuantMax = 8191;  // larger ones exceed 16-bit arithmetic at a coefficient of 1

using Bytes = std::span<const std::uint8_t>;

int u16(Bytes bytes, std::size_t at) {
  return bytes[at] << 8 | bytes[at + 1];
}

// The content of the markers so far. At SOS it becomes the Header.
struct Seen {
  bool frame = false;
  bool jfif = false;
  bool adobe = false;
  int adobe_transform = 0;
  std::array<bool, 4> quant{};
  std::array<bool, 4> quant_large{};
};

bool read_quant(Bytes body, Header& header, Seen& seen) {
  while (!body.empty()) {
    const int precision = body[0] >> 4;
    const int slot = body[0] & 15;
    const std::size_t bytes = precision == 0 ? 64 : 128;
    if (slot > 3 || precision > 1 || body.size() < 1 + bytes) return false;
    seen.quant[slot] = true;
    seen.quant_large[slot] = false;
    for (int k = 0; k < 64; ++k) {
      const int value = precision == 0 ? body[1 + k] : u16(body, 1 + 2 * k);
      header.quant[slot][kZigzag[k]] = static_cast<std::uint16_t>(value);
      seen.quant_large[slot] |= value > kQuantMax;
    }
    body = body.subspan(1 + bytes);
  }
  return true;
}

bool read_huffman(Bytes body, Header& header) {
  while (!body.empty()) {
    if (body.size() < 17) return false;
    const int kind = body[0] >> 4;
    const int slot = body[0] & 15;
    int symbols = 0;
    for (int i = 1; i <= 16; ++i) symbols += body[i];
    if (kind > 1 || slot > 3 || symbols > 256 || body.size() < 17u + static_cast<std::size_t>(symbols))
      return false;
    (kind == 0 ? header.dc : header.ac)[slot] = {body.data() + 1, symbols};
    body = body.subspan(17 + static_cast<std::size_t>(symbols));
  }
  return true;
}

Ordinary read_frame(Bytes body, Header& header) {
  if (body.size() < 6) return Ordinary::kNotJpeg;
  if (body[0] != 8) return Ordinary::kPrecision;
  header.height = u16(body, 1);
  header.width = u16(body, 3);
  header.component_count = body[5];
  if (body.size() != 6u + 3u * body[5]) return Ordinary::kNotJpeg;
  if (header.width < 1 || header.height < 1 || std::max(header.width, header.height) > kSideMax)
    return Ordinary::kSize;
  if (header.component_count != 1 && header.component_count != 3) return Ordinary::kColour;
  for (int c = 0; c < header.component_count; ++c) {
    Component& component = header.components[c];
    component = {};
    component.id = body[6 + 3 * c];
    component.h = body[7 + 3 * c] >> 4;
    component.v = body[7 + 3 * c] & 15;
    component.quant = body[8 + 3 * c];
    for (int other = 0; other < c; ++other) {
      if (header.components[other].id == component.id) return Ordinary::kNotJpeg;
    }
    if (component.h < 1 || component.h > 4 || component.v < 1 || component.v > 4) return Ordinary::kNotJpeg;
    if (component.quant > 3) return Ordinary::kTables;
  }
  return Ordinary::kOrdinary;
}

Ordinary read_scan_header(Bytes body, Header& header) {
  const std::size_t count = static_cast<std::size_t>(header.component_count);
  if (body.size() != 4 + 2 * count || body[0] != count) return Ordinary::kSeveralScans;
  for (std::size_t c = 0; c < count; ++c) {
    Component& component = header.components[c];
    if (body[1 + 2 * c] != component.id) return Ordinary::kSeveralScans;
    component.dc = body[2 + 2 * c] >> 4;
    component.ac = body[2 + 2 * c] & 15;
    if (component.dc > 3 || component.ac > 3) return Ordinary::kTables;
  }
  const std::size_t tail = 1 + 2 * count;
  if (body[tail] != 0 || body[tail + 1] != 63 || body[tail + 2] != 0) return Ordinary::kSeveralScans;
  return Ordinary::kOrdinary;
}

// Whether this is a prefix code that libjpeg-turbo accepts: the codes of a length fit into it and are not all ones, and
// DC sizes are at most 15.
bool is_prefix_code(const HuffmanSpec& spec, bool dc) {
  if (spec.bytes == nullptr) return false;
  std::uint32_t code = 0;
  for (int length = 1; length <= 16; ++length) {
    code += spec.bytes[length - 1];
    if (spec.bytes[length - 1] != 0 && code >= (1u << length)) return false;  // a code of all ones is invalid
    code <<= 1;
  }
  for (int i = 0; dc && i < spec.symbol_count; ++i) {
    if (spec.bytes[16 + i] > 15) return false;
  }
  return true;
}

Ordinary check_tables(const Header& header, const Seen& seen) {
  for (int c = 0; c < header.component_count; ++c) {
    const Component& component = header.components[c];
    if (!seen.quant[component.quant] || seen.quant_large[component.quant]) return Ordinary::kTables;
    if (!is_prefix_code(header.dc[component.dc], true)) return Ordinary::kTables;
    if (!is_prefix_code(header.ac[component.ac], false)) return Ordinary::kTables;
  }
  return Ordinary::kOrdinary;
}

// The choice of libjpeg-turbo when the caller does not name a colour space.
bool is_ycbcr(const Header& header, const Seen& seen) {
  if (seen.jfif) return true;
  if (seen.adobe) return seen.adobe_transform == 1;
  const auto& c = header.components;
  return !(c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B');
}

Ordinary finish(Bytes body, std::size_t scan_begin, Header& header, const Seen& seen) {
  if (!seen.frame) return Ordinary::kNotJpeg;
  if (const Ordinary answer = read_scan_header(body, header); answer != Ordinary::kOrdinary) return answer;
  if (header.component_count == 3 && !is_ycbcr(header, seen)) return Ordinary::kColour;
  if (const Ordinary answer = check_tables(header, seen); answer != Ordinary::kOrdinary) return answer;
  header.scan_begin = scan_begin;
  return settle_geometry(header);
}

void read_app(int marker, Bytes body, Seen& seen) {
  if (marker == 0xE0 && body.size() >= 14 && std::memcmp(body.data(), "JFIF", 5) == 0) seen.jfif = true;
  if (marker == 0xEE && body.size() >= 12 && std::memcmp(body.data(), "Adobe", 5) == 0) {
    seen.adobe = true;
    seen.adobe_transform = body[11];
  }
}

}  // namespace

Ordinary settle_geometry(Header& header) {
  auto& c = header.components;
  if (header.component_count == 1) {
    c[0].h = c[0].v = 1;  // a scan of one component is never interleaved, so its factors mean nothing
    header.sampling = Sampling::kGray;
  } else {
    if (c[1].h != 1 || c[1].v != 1 || c[2].h != 1 || c[2].v != 1) return Ordinary::kSampling;
    if (c[0].h == 1 && c[0].v == 1) {
      header.sampling = Sampling::k444;
    } else if (c[0].h == 2 && c[0].v == 1) {
      header.sampling = Sampling::k422;
    } else if (c[0].h == 2 && c[0].v == 2) {
      header.sampling = Sampling::k420;
    } else {
      return Ordinary::kSampling;
    }
  }
  const int mcu_width = 8 * c[0].h;
  const int mcu_height = 8 * c[0].v;
  header.mcu_cols = (header.width + mcu_width - 1) / mcu_width;
  header.mcu_rows = (header.height + mcu_height - 1) / mcu_height;
  for (int i = 0; i < header.component_count; ++i) {
    c[i].width = (header.width * c[i].h + c[0].h - 1) / c[0].h;
    c[i].height = (header.height * c[i].v + c[0].v - 1) / c[0].v;
  }
  if (c[0].h == 2 && c[1].width <= 2) return Ordinary::kNarrow;
  return Ordinary::kOrdinary;
}

Ordinary read_header(Bytes bytes, Header& header) {
  if (bytes.size() < 4 || bytes[0] != 0xFF || bytes[1] != 0xD8) return Ordinary::kNotJpeg;
  header.restart_interval = 0;
  header.dc = {};
  header.ac = {};
  Seen seen;
  std::size_t at = 2;
  for (;;) {
    if (at + 4 > bytes.size() || bytes[at] != 0xFF) return Ordinary::kNotJpeg;
    while (at < bytes.size() && bytes[at] == 0xFF) ++at;  // fill bytes are legal
    if (at + 3 > bytes.size()) return Ordinary::kNotJpeg;
    const int marker = bytes[at++];
    const std::size_t length = static_cast<std::size_t>(u16(bytes, at));
    if (length < 2 || at + length > bytes.size()) return Ordinary::kNotJpeg;
    const Bytes body = bytes.subspan(at + 2, length - 2);
    at += length;
    switch (marker) {
      case 0xDB:
        if (!read_quant(body, header, seen)) return Ordinary::kTables;
        break;
      case 0xC4:
        if (!read_huffman(body, header)) return Ordinary::kTables;
        break;
      case 0xC0:
      case 0xC1: {
        if (seen.frame) return Ordinary::kNotJpeg;
        seen.frame = true;
        const Ordinary answer = read_frame(body, header);
        if (answer != Ordinary::kOrdinary) return answer;
        break;
      }
      case 0xDD:
        if (body.size() != 2) return Ordinary::kNotJpeg;
        header.restart_interval = u16(body, 0);
        break;
      case 0xDA:
        return finish(body, at, header, seen);
      case 0xC2:
      case 0xC3:
      case 0xC5:
      case 0xC6:
      case 0xC7:
      case 0xC8:
      case 0xC9:
      case 0xCA:
      case 0xCB:
      case 0xCC:
      case 0xCD:
      case 0xCE:
      case 0xCF:
        return Ordinary::kProgressive;
      case 0xFE:
        break;
      default:
        if (marker < 0xE0 || marker > 0xEF) return Ordinary::kNotJpeg;
        read_app(marker, body, seen);
    }
  }
}

}  // namespace carya::jpeg
