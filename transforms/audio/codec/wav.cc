#include "transforms/audio/codec/wav.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

namespace carya::transforms {
namespace {

static_assert(std::endian::native == std::endian::little);

enum class Coding : std::uint8_t { kU8, kS16, kS24, kS32, kF32, kF64, kALaw, kMuLaw };

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// ITU-T G.711, expanded to 16 bits.
std::int16_t expand_mu_law(unsigned code) {
  code = ~code & 0xff;
  const int magnitude = ((static_cast<int>(code & 0x0f) << 3) + 0x84) << (code >> 4 & 7);
  return static_cast<std::int16_t>((code & 0x80) != 0 ? 0x84 - magnitude : magnitude - 0x84);
}

std::int16_t expand_a_law(unsigned code) {
  code ^= 0x55;
  const int exponent = static_cast<int>(code >> 4 & 7);
  int magnitude = (static_cast<int>(code & 0x0f) << 4) + (exponent == 0 ? 8 : 0x108);
  if (exponent > 1) magnitude <<= exponent - 1;
  return static_cast<std::int16_t>((code & 0x80) != 0 ? magnitude : -magnitude);
}

std::array<float, 256> law_table(std::int16_t (*expand)(unsigned)) {
  std::array<float, 256> table{};
  for (unsigned code = 0; code < 256; ++code) table[code] = static_cast<float>(expand(code)) / 32768.0F;
  return table;
}

struct Header {
  AudioInfo info;
  Coding coding = Coding::kS16;
  std::size_t value_bytes = 0;
  const std::byte* data = nullptr;
};

class WavReader final : public AudioReader {
 public:
  explicit WavReader(const Header& header) : header_(header) {}
  const AudioInfo& info() const override { return header_.info; }
  Status read(std::int64_t begin, std::int64_t count, float* out) override;

 private:
  Header header_;
};

Status WavReader::read(std::int64_t begin, std::int64_t count, float* out) {
  const auto first = static_cast<std::size_t>(begin * header_.info.channels);
  const auto values = static_cast<std::size_t>(count * header_.info.channels);
  const std::byte* in = header_.data + first * header_.value_bytes;
  const auto each = [&]<typename Convert>(Convert convert) {
    for (std::size_t i = 0; i < values; ++i) out[i] = convert(in + i * header_.value_bytes);
  };
  switch (header_.coding) {
    case Coding::kU8:
      each([](const std::byte* p) { return static_cast<float>(static_cast<int>(*p) - 128) / 128.0F; });
      break;
    case Coding::kS16:
      each([](const std::byte* p) { return static_cast<float>(load<std::int16_t>(p)) * (1.0F / 32768.0F); });
      break;
    case Coding::kS24:
      each([](const std::byte* p) {
        const std::int32_t value =
            static_cast<std::int32_t>(static_cast<std::uint32_t>(load<std::uint16_t>(p)) << 8 |
                                      static_cast<std::uint32_t>(p[2]) << 24) >>
            8;
        return static_cast<float>(value) * (1.0F / 8388608.0F);
      });
      break;
    case Coding::kS32:
      each([](const std::byte* p) {
        return static_cast<float>(load<std::int32_t>(p)) * (1.0F / 2147483648.0F);
      });
      break;
    case Coding::kF32:
      each([](const std::byte* p) { return load<float>(p); });
      break;
    case Coding::kF64:
      each([](const std::byte* p) { return static_cast<float>(load<double>(p)); });
      break;
    case Coding::kALaw: {
      static const std::array<float, 256> table = law_table(expand_a_law);
      each([](const std::byte* p) { return table[static_cast<std::size_t>(*p)]; });
      break;
    }
    case Coding::kMuLaw: {
      static const std::array<float, 256> table = law_table(expand_mu_law);
      each([](const std::byte* p) { return table[static_cast<std::size_t>(*p)]; });
      break;
    }
  }
  return {};
}

Status read_format(AudioBytes chunk, Header& header) {
  if (chunk.size() < 16)
    return fail(Code::kCorrupt, fmt::format("WAV: a format of {} B; 16 are needed", chunk.size()));
  unsigned tag = load<std::uint16_t>(chunk.data());
  const unsigned bits = load<std::uint16_t>(chunk.data() + 14);
  const unsigned frame_bytes = load<std::uint16_t>(chunk.data() + 12);
  header.info.channels = load<std::uint16_t>(chunk.data() + 2);
  header.info.rate = load<std::uint32_t>(chunk.data() + 4);
  if (tag == 0xfffe && chunk.size() >= 40) tag = load<std::uint16_t>(chunk.data() + 24);  // extensible
  struct Known {
    unsigned tag, bits;
    Coding coding;
  };
  static constexpr Known kKnown[] = {{1, 8, Coding::kU8},   {1, 16, Coding::kS16}, {1, 24, Coding::kS24},
                                     {1, 32, Coding::kS32}, {3, 32, Coding::kF32}, {3, 64, Coding::kF64},
                                     {6, 8, Coding::kALaw}, {7, 8, Coding::kMuLaw}};
  const auto* const known =
      std::ranges::find_if(kKnown, [&](const Known& k) { return k.tag == tag && k.bits == bits; });
  if (known == std::end(kKnown))
    return fail(
        Code::kCorrupt,
        fmt::format("WAV: coding {} with {} bits; PCM of 8, 16, 24 or 32 bits, float of 32 or 64, A-law and "
                    "mu-law are read",
                    tag, bits));
  header.coding = known->coding;
  header.value_bytes = bits / 8;
  TRY(check_audio_info("WAV", header.info));
  if (frame_bytes != header.value_bytes * static_cast<std::size_t>(header.info.channels))
    return fail(Code::kCorrupt, fmt::format("WAV: {} B for a frame of {} channels of {} bits", frame_bytes,
                                            header.info.channels, bits));
  return {};
}

bool named(const std::byte* at, std::string_view name) {
  return std::memcmp(at, name.data(), 4) == 0;
}

}  // namespace

Result<std::unique_ptr<AudioReader>> open_wav(AudioBytes bytes) {
  Header header;
  std::size_t at = 12;
  while (bytes.size() - at >= 8) {
    const std::byte* const name = bytes.data() + at;
    const std::size_t said = load<std::uint32_t>(bytes.data() + at + 4);
    at += 8;
    const std::size_t left = bytes.size() - at;
    if (named(name, "data")) {
      if (header.value_bytes == 0) return fail(Code::kCorrupt, "WAV: data before its format");
      const auto frame = static_cast<std::int64_t>(header.value_bytes) * header.info.channels;
      const bool open_end = said == 0 || said >= 0xffffff00;
      header.info.frames = static_cast<std::int64_t>(open_end ? left : said) / frame;
      header.data = bytes.data() + at;
      if (!open_end && said > left)
        return audio_ends_early("WAV", static_cast<std::int64_t>(left) / frame, header.info.frames);
      return std::make_unique<WavReader>(header);
    }
    if (said > left) break;
    if (named(name, "fmt ")) TRY(read_format(bytes.subspan(at, said), header));
    at += std::min(left, said + (said & 1));
  }
  return fail(Code::kCorrupt, "WAV: no data chunk");
}

}  // namespace carya::transforms
