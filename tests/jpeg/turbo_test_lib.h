#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

// libjpeg-turbo as the reference, and JPEGs made with it.
namespace carya::jpeg::testing {

using Bytes = std::vector<std::uint8_t>;

struct Picture {
  bool decoded = false;  ///< false: libjpeg-turbo gave an error
  long warnings = 0;
  int width = 0;
  int height = 0;
  int channels = 0;
  Bytes pixels;
};

/// Whole image with libjpeg-turbo's defaults, as RGB or gray.
Picture turbo_decode(std::span<const std::uint8_t> jpeg, bool gray = false);

enum class Content { kNoise, kRamp, kBlackWhite, kCheckers, kWaves, kFlat };

struct Recipe {
  int width = 64;
  int height = 64;
  int h = 2;  ///< sampling factors of Y; chroma has 1 x 1
  int v = 2;
  bool gray = false;
  int quality = 80;
  bool optimise = false;
  bool fast_dct = false;
  bool progressive = false;
  int restart_mcus = 0;
  int quant_scale = 0;  ///< percent of the standard tables, 16-bit where needed; 0: by quality
  Content content = Content::kWaves;

  std::string text() const;
};

Bytes encode(const Recipe& recipe, std::mt19937_64& random);

/// Every feature of an ordinary file, drawn at random; sides up to side_max.
Recipe random_recipe(std::mt19937_64& random, int side_max);

/// Uniform in [low, high].
int draw(std::mt19937_64& random, int low, int high);

/// Every file below CARYA_TEST_DATA/<folder> that starts like a JPEG, sorted by name; empty without the
/// variable.
struct File {
  std::string name;
  Bytes bytes;
};
std::vector<File> test_data(const std::string& folder);

}  // namespace carya::jpeg::testing
