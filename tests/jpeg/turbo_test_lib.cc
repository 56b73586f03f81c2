#include "tests/jpeg/turbo_test_lib.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <jpeglib.h>  // after <cstdio>, which it needs

namespace carya::jpeg::testing {
namespace {

struct Errors {
  jpeg_error_mgr manager;
  std::jmp_buf escape;
};

void leave(j_common_ptr info) {
  std::longjmp(reinterpret_cast<Errors*>(info->err)->escape, 1);
}
void count_message(j_common_ptr info, int level) {
  if (level < 0) ++info->err->num_warnings;
}
void no_output(j_common_ptr) {}

void set_errors(Errors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = leave;
  errors.manager.emit_message = count_message;
  errors.manager.output_message = no_output;
}

int sample(Content content, int x, int y, int c, std::mt19937_64& random) {
  switch (content) {
    case Content::kNoise:
      return static_cast<int>(random() & 255);
    case Content::kRamp:
      return (x * 3 + y * 2 + c * 40) & 255;
    case Content::kBlackWhite:
      return (random() & 1) != 0 ? 255 : 0;
    case Content::kCheckers:
      return (((x >> 3) + (y >> 3)) & 1) != 0 ? 255 : 0;
    case Content::kWaves:
      return std::clamp(static_cast<int>(128 + 100 * std::sin(x * 0.1 * (c + 1)) * std::cos(y * 0.13)) +
                            static_cast<int>(random() % 9),
                        0, 255);
    case Content::kFlat:
      return 77 + 31 * c;
  }
  return 0;
}

}  // namespace

int draw(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}

Picture turbo_decode(std::span<const std::uint8_t> jpeg, bool gray) {
  Picture picture;
  jpeg_decompress_struct info;
  Errors errors;
  set_errors(errors);
  info.err = &errors.manager;
  jpeg_create_decompress(&info);
  if (setjmp(errors.escape) == 0) {
    jpeg_mem_src(&info, jpeg.data(), jpeg.size());
    jpeg_read_header(&info, TRUE);
    if (static_cast<std::uint64_t>(info.image_width) * info.image_height > 100'000'000)
      longjmp(errors.escape, 1);
    info.out_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&info);
    picture.width = static_cast<int>(info.output_width);
    picture.height = static_cast<int>(info.output_height);
    picture.channels = info.output_components;
    const std::size_t stride =
        static_cast<std::size_t>(info.output_width) * static_cast<std::size_t>(picture.channels);
    picture.pixels.resize(stride * info.output_height);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = picture.pixels.data() + stride * info.output_scanline;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    picture.decoded = true;
  }
  picture.warnings = errors.manager.num_warnings;
  jpeg_destroy_decompress(&info);
  return picture;
}

std::string Recipe::text() const {
  return std::to_string(width) + "x" + std::to_string(height) + (gray ? " gray " : " ") + std::to_string(h) +
         std::to_string(v) + " q" + std::to_string(quality) + " scale" + std::to_string(quant_scale) +
         " optimise" + std::to_string(optimise) + " restart" + std::to_string(restart_mcus) + " content" +
         std::to_string(static_cast<int>(content));
}

Bytes encode(const Recipe& recipe, std::mt19937_64& random) {
  const int channels = recipe.gray ? 1 : 3;
  Bytes pixels;
  for (int y = 0; y < recipe.height; ++y) {
    for (int x = 0; x < recipe.width; ++x) {
      for (int c = 0; c < channels; ++c) {
        pixels.push_back(static_cast<std::uint8_t>(sample(recipe.content, x, y, c, random)));
      }
    }
  }
  jpeg_compress_struct info;
  Errors errors;
  set_errors(errors);
  info.err = &errors.manager;
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(recipe.width);
  info.image_height = static_cast<JDIMENSION>(recipe.height);
  info.input_components = channels;
  info.in_color_space = recipe.gray ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  if (recipe.quant_scale > 0) {
    jpeg_set_linear_quality(&info, recipe.quant_scale, FALSE);
  } else {
    jpeg_set_quality(&info, recipe.quality, TRUE);
  }
  info.optimize_coding = recipe.optimise ? TRUE : FALSE;
  info.dct_method = recipe.fast_dct ? JDCT_IFAST : JDCT_ISLOW;
  info.restart_interval = static_cast<unsigned>(recipe.restart_mcus);
  info.comp_info[0].h_samp_factor = recipe.h;
  info.comp_info[0].v_samp_factor = recipe.v;
  if (recipe.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const std::size_t stride = static_cast<std::size_t>(recipe.width) * static_cast<std::size_t>(channels);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + stride * info.next_scanline;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  Bytes jpeg(memory, memory + size);
  std::free(memory);
  jpeg_destroy_compress(&info);
  return jpeg;
}

Recipe random_recipe(std::mt19937_64& random, int side_max) {
  Recipe recipe;
  recipe.width = draw(random, 1, side_max);
  recipe.height = draw(random, 1, side_max);
  const int sampling = draw(random, 0, 3);
  recipe.gray = sampling == 3;
  recipe.h = sampling == 0 || (recipe.gray && draw(random, 0, 1) == 0) ? 1 : 2;
  recipe.v = sampling >= 2 && recipe.h == 2 ? 2 : 1;
  recipe.quality = draw(random, 1, 100);
  recipe.optimise = draw(random, 0, 1) == 0;
  recipe.fast_dct = draw(random, 0, 7) == 0;
  if (draw(random, 0, 3) == 0) recipe.restart_mcus = draw(random, 1, draw(random, 0, 1) == 0 ? 8 : 1000);
  if (draw(random, 0, 7) == 0) recipe.quant_scale = draw(random, 1, 5000);
  recipe.content = static_cast<Content>(draw(random, 0, 5));
  return recipe;
}

std::vector<File> test_data(const std::string& folder) {
  std::vector<File> files;
  const char* root = std::getenv("CARYA_TEST_DATA");
  if (root == nullptr) return files;
  const std::filesystem::path start = std::filesystem::path(root) / folder;
  if (!std::filesystem::exists(start)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(start)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    File file{entry.path().filename().string(), Bytes(std::istreambuf_iterator<char>(in), {})};
    if (file.bytes.size() > 2 && file.bytes[0] == 0xFF && file.bytes[1] == 0xD8)
      files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.name < b.name; });
  return files;
}

}  // namespace carya::jpeg::testing
