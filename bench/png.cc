// Question: what does a PNG picture cost, mask or photo, beside libspng's own loop over its rows? Ceiling (to stay
// below): that loop on the same file, which the reader was before. Both ask for the whole picture; us per picture are
// CPU time, medians of turns. Own flags: --photos DIR (JPEGs that become PNG; otherwise generated ones).

#include <spng.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/pairs.h"
#include "bench/photos.h"
#include "bench/program.h"
#include "transforms/kernels/codec/image_codec.h"

namespace {

using namespace carya::transforms;
using File = std::vector<std::byte>;

/// As Pillow does it: the filter of each row chosen by the least sum of absolute differences. Masks have none.
File write_png(const ImageView& image, bool filters) {
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_set_option(context, SPNG_FILTER_CHOICE, filters ? SPNG_FILTER_CHOICE_ALL : SPNG_FILTER_CHOICE_NONE);
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(image.width);
  header.height = static_cast<std::uint32_t>(image.height);
  header.bit_depth = 8;
  header.color_type = image.channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  spng_set_ihdr(context, &header);
  CHECK(spng_encode_image(context, image.data, static_cast<std::size_t>(image.height * image.row_bytes()),
                          SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE) == 0);
  std::size_t bytes = 0;
  int error = 0;
  void* data = spng_get_png_buffer(context, &bytes, &error);
  File file(bytes);
  std::memcpy(file.data(), data, bytes);
  std::free(data);
  spng_ctx_free(context);
  return file;
}

/// Seven objects, as masks of COCO's photos have.
File mask(int seed) {
  constexpr std::int64_t kHeight = 480, kWidth = 640;
  std::vector<std::uint8_t> pixels(kHeight * kWidth);
  carya::bench::Draws draws;
  for (int i = 0; i < 14 * seed; ++i) draws.next();
  for (int object = 1; object <= 7; ++object) {
    const double middle_y = draws.next() * kHeight, middle_x = draws.next() * kWidth;
    const double radius = 30 + 90 * draws.next(), waves = std::floor(3 + 5 * draws.next());
    for (std::int64_t y = 0; y < kHeight; ++y) {
      for (std::int64_t x = 0; x < kWidth; ++x) {
        const double dy = static_cast<double>(y) - middle_y, dx = static_cast<double>(x) - middle_x;
        if (std::hypot(dy, dx) < radius * (1 + 0.3 * std::sin(waves * std::atan2(dy, dx))))
          pixels[static_cast<std::size_t>(y * kWidth + x)] = static_cast<std::uint8_t>(object);
      }
    }
  }
  return write_png({pixels.data(), kHeight, kWidth, 1, kWidth}, false);
}

void libspng_rows(const File& file, std::vector<std::uint8_t>& row) {
  spng_ctx* context = spng_ctx_new(0);
  spng_set_crc_action(context, SPNG_CRC_ERROR, SPNG_CRC_ERROR);
  spng_set_png_buffer(context, file.data(), file.size());
  spng_ihdr header{};
  spng_get_ihdr(context, &header);
  row.resize(std::size_t{header.width} * 3);
  int status = spng_decode_image(context, nullptr, 0, SPNG_FMT_RAW, SPNG_DECODE_PROGRESSIVE);
  while (status == 0) status = spng_decode_row(context, row.data(), row.size());
  CHECK(status == SPNG_EOI);
  spng_ctx_free(context);
}

void pictures(benchmark::State& state, const std::vector<File>& files, ColorMode mode) {
  std::vector<std::uint8_t> row;
  ImageDecoder decoder;
  const auto us = [&](const auto& read) {
    return 1e-3 * carya::bench::cpu_ns_per_item(files.size(), [&] { std::ranges::for_each(files, read); });
  };
  double pixels = 0, bytes = 0;
  const auto ours = [&](const File& file) {
    const auto info = decoder.open(file, {});
    CHECK(info && decoder.decode_view({0, 0, info->height, info->width}, mode));
    pixels += static_cast<double>(info->height * info->width * color_channels(mode));
    bytes += static_cast<double>(file.size());
  };
  us(ours);  // takes the memory
  state.counters["file_bytes"] = bytes / static_cast<double>(files.size());
  state.counters["picture_bytes"] = pixels / static_cast<double>(files.size());
  carya::bench::run_in_turns(
      state, {{"libspng_us", [&] { return us([&](const File& file) { libspng_rows(file, row); }); }},
              {"us", [&] { return us(ours); }}});
}

}  // namespace

int main(int argc, char** argv) {
  carya::bench::Program program(argc, argv);
  auto photos = carya::bench::load_photos(program.text("--photos"));
  const std::size_t most = program.smoke() ? 2 : 16;
  photos.resize(std::min(photos.size(), most));
  std::vector<File> masks, gray, rgb, flat;
  for (int i = 0; i < static_cast<int>(most); ++i) masks.push_back(mask(i));
  ImageDecoder decoder;
  for (const auto& photo : photos) {
    const Region whole{0, 0, photo.info.height, photo.info.width};
    CHECK(decoder.open(photo.bytes, {}));
    rgb.push_back(write_png(carya::bench::must(decoder.decode_view(whole, ColorMode::kRgb)), true));
    flat.push_back(write_png(carya::bench::must(decoder.decode_view(whole, ColorMode::kRgb)), false));
    gray.push_back(write_png(carya::bench::must(decoder.decode_view(whole, ColorMode::kL)), true));
  }
  const auto add = [&](const char* name, const std::vector<File>& files, ColorMode mode) {
    benchmark::RegisterBenchmark(name, pictures, std::cref(files), mode)
        ->Iterations(program.smoke() ? 1 : 15)
        ->UseManualTime();
  };
  add("masks", masks, ColorMode::kL);
  add("gray photos", gray, ColorMode::kL);
  add("RGB photos", rgb, ColorMode::kRgb);
  add("RGB photos without filters", flat, ColorMode::kRgb);
  return program.run();
}
