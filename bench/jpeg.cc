// Question: how much faster than libjpeg-turbo does transforms/jpeg decode photos, whole and in part, on one
// core? Ceiling: there is none to reach but libjpeg-turbo's own loop over the same bytes, timed in the same
// run, one image after the other; the ratio to it is reported per image. Times are CPU time, headers and
// tables included.
//
//   bench_jpeg [--photos DIR] [--reps N] [--every N] [--target NAME] [--smoke]

#include <time.h>
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <jpeglib.h>  // after <cstdio>, which it needs

#include "transforms/jpeg/decoder.h"
#include "transforms/jpeg/index.h"
#include "transforms/simd/targets.h"

namespace {

using carya::jpeg::Decoder;
using carya::jpeg::Index;
using carya::jpeg::Mode;
using carya::jpeg::Outcome;
using carya::jpeg::Region;
using Bytes = std::vector<std::uint8_t>;

struct Photo {
  std::string name;
  Bytes bytes;
  int width = 0;
  int height = 0;
  Index rows{0};
  Index every8{8};
};

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The crop of torchvision's RandomResizedCrop at its defaults.
Region random_resized_crop(int width, int height, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  const double area = static_cast<double>(width) * height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * (0.08 + 0.92 * uniform(random));
    const double aspect = std::exp(std::log(0.75) + uniform(random) * (std::log(4.0 / 3) - std::log(0.75)));
    const int w = static_cast<int>(std::lround(std::sqrt(target * aspect)));
    const int h = static_cast<int>(std::lround(std::sqrt(target / aspect)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int y = static_cast<int>(uniform(random) * (height - h + 1));
    const int x = static_cast<int>(uniform(random) * (width - w + 1));
    return {x, y, w, h};
  }
  const int side = std::min(width, height);
  return {(width - side) / 2, (height - side) / 2, side, side};
}

// libjpeg-turbo, whole or with skip and crop (one pixel of margin keeps its pixels those of a whole decode).
class Turbo {
 public:
  Turbo() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = [](j_common_ptr info) {
      std::longjmp(reinterpret_cast<Errors*>(info->err)->escape, 1);
    };
    errors_.manager.output_message = [](j_common_ptr) {};
    jpeg_create_decompress(&info_);
  }
  ~Turbo() { jpeg_destroy_decompress(&info_); }

  bool decode(const Bytes& bytes, const Region* region, Bytes& out) {
    if (setjmp(errors_.escape) != 0) {
      jpeg_abort_decompress(&info_);
      return false;
    }
    jpeg_mem_src(&info_, bytes.data(), bytes.size());
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    JDIMENSION lines = info_.output_height;
    if (region != nullptr) {
      const int left = std::max(region->x - 1, 0);
      const int right = std::min(region->x + region->width + 1, static_cast<int>(info_.output_width));
      const int top = std::max(region->y - 1, 0) & ~1;
      JDIMENSION x = static_cast<JDIMENSION>(left);
      JDIMENSION columns = static_cast<JDIMENSION>(right - left);
      if (columns < info_.output_width) jpeg_crop_scanline(&info_, &x, &columns);
      if (top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(top));
      lines = static_cast<JDIMENSION>(region->y + region->height);
    }
    const std::size_t stride = std::size_t{info_.output_width} * 3;
    if (out.size() < stride * lines) out.resize(stride * lines);
    for (std::size_t at = 0; info_.output_scanline < lines;) {
      JSAMPROW rows[8];
      const JDIMENSION count = std::min<JDIMENSION>(8, lines - info_.output_scanline);
      for (JDIMENSION i = 0; i < count; ++i) rows[i] = out.data() + (at + i) * stride;
      at += jpeg_read_scanlines(&info_, rows, count);
    }
    jpeg_abort_decompress(&info_);
    return true;
  }

 private:
  struct Errors {
    jpeg_error_mgr manager;
    std::jmp_buf escape;
  };
  jpeg_decompress_struct info_;
  Errors errors_;
};

std::vector<Photo> load(const std::filesystem::path& folder, std::size_t every) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  Decoder decoder;
  std::vector<Photo> photos;
  for (std::size_t i = 0; i < paths.size(); i += every) {
    std::ifstream in(paths[i], std::ios::binary);
    Photo photo;
    photo.name = paths[i].filename().string();
    photo.bytes.assign(std::istreambuf_iterator<char>(in), {});
    if (decoder.recognise(photo.bytes) != carya::jpeg::Ordinary::kOrdinary) continue;
    if (decoder.header().component_count != 3) continue;
    photo.width = decoder.header().width;
    photo.height = decoder.header().height;
    Bytes out(static_cast<std::size_t>(photo.width) * static_cast<std::size_t>(photo.height) * 3);
    const Region whole{0, 0, photo.width, photo.height};
    const std::size_t stride = static_cast<std::size_t>(photo.width) * 3;
    if (decoder.decode(photo.bytes, whole, Mode::kRgb, out.data(), stride, nullptr, &photo.rows) !=
        Outcome::kDone)
      continue;
    if (decoder.decode(photo.bytes, whole, Mode::kRgb, out.data(), stride, nullptr, &photo.every8) !=
        Outcome::kDone)
      continue;
    photos.push_back(std::move(photo));
  }
  return photos;
}

enum Case { kTurboFull, kTurboRegion, kFull, kRegion, kRowIndex, kIndex8, kFullRowIndex, kMakeIndex, kCases };
constexpr const char* kCaseNames[kCases] = {"turbo full",     "turbo region",     "full",
                                            "region",         "region_row_index", "region_8mcu_index",
                                            "full_row_index", "full_making_8mcu"};

struct Runner {
  Turbo turbo;
  Decoder decoder;
  Bytes out;
  Index made{8};

  bool own(const Photo& photo, const Region& region, const Index* index, Index* makes = nullptr) {
    const std::size_t stride = static_cast<std::size_t>(region.width) * 3;
    return decoder.decode(photo.bytes, region, Mode::kRgb, out.data(), stride, index, makes) ==
           Outcome::kDone;
  }
  bool run(Case which, const Photo& photo, const Region& crop) {
    const Region whole{0, 0, photo.width, photo.height};
    switch (which) {
      case kTurboFull:
        return turbo.decode(photo.bytes, nullptr, out);
      case kTurboRegion:
        return turbo.decode(photo.bytes, &crop, out);
      case kFull:
        return own(photo, whole, nullptr);
      case kRegion:
        return own(photo, crop, nullptr);
      case kRowIndex:
        return own(photo, crop, &photo.rows);
      case kIndex8:
        return own(photo, crop, &photo.every8);
      case kFullRowIndex:
        return own(photo, whole, &photo.rows);
      case kMakeIndex:
        return own(photo, whole, nullptr, &made);
      case kCases:
        break;
    }
    return false;
  }
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Per photo and case, the median of the repetitions in seconds. Every repetition has another crop.
std::vector<std::vector<double>> measure(const std::vector<Photo>& photos, int reps) {
  Runner runner;
  std::size_t pixels = 0;
  for (const Photo& photo : photos) {
    pixels = std::max(pixels, static_cast<std::size_t>(photo.width) * static_cast<std::size_t>(photo.height));
  }
  runner.out.resize(3 * pixels);
  std::vector<std::vector<std::vector<double>>> times(kCases,
                                                      std::vector<std::vector<double>>(photos.size()));
  std::mt19937_64 random(7);
  for (int rep = 0; rep < reps; ++rep) {
    for (std::size_t p = 0; p < photos.size(); ++p) {
      const Region crop = random_resized_crop(photos[p].width, photos[p].height, random);
      for (int turn = 0; turn < kCases; ++turn) {
        const Case which = static_cast<Case>((turn + rep + static_cast<int>(p)) % kCases);
        const double begin = cpu_seconds();
        const bool done = runner.run(which, photos[p], crop);
        times[which][p].push_back(cpu_seconds() - begin);
        if (!done) {
          std::fprintf(stderr, "%s: %s did not decode\n", photos[p].name.c_str(), kCaseNames[which]);
          std::exit(1);
        }
      }
    }
  }
  std::vector<std::vector<double>> medians(kCases);
  for (int which = 0; which < kCases; ++which) {
    for (const auto& values : times[which]) medians[which].push_back(median(values));
  }
  return medians;
}

struct Ratio {
  double p5, p50, p95;
};
Ratio ratio(const std::vector<double>& above, const std::vector<double>& below) {
  std::vector<double> values;
  for (std::size_t i = 0; i < above.size(); ++i) values.push_back(above[i] / below[i]);
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {values[n * 5 / 100], values[n / 2], values[n * 95 / 100]};
}

void report(const std::vector<Photo>& photos, const std::vector<std::vector<double>>& medians) {
  const double n = static_cast<double>(photos.size());
  double bytes = 0;
  std::size_t row_bytes = 0;
  std::size_t every8_bytes = 0;
  for (const Photo& photo : photos) {
    bytes += static_cast<double>(photo.bytes.size());
    Bytes packed;
    photo.rows.write(packed);
    row_bytes += packed.size();
    packed.clear();
    photo.every8.write(packed);
    every8_bytes += packed.size();
  }
  std::printf(
      "target %s, %zu photos of %.0f bytes on average; index bytes per photo: rows %.0f, every 8 MCUs %.0f\n",
      carya::simd_target().c_str(), photos.size(), bytes / n, static_cast<double>(row_bytes) / n,
      static_cast<double>(every8_bytes) / n);
  std::printf("%-20s %10s   ratio to libjpeg-turbo: total, p5, p50, p95\n", "case", "us/photo");
  std::string json = "{\"bench\":\"jpeg\",\"target\":\"" + carya::simd_target() +
                     "\",\"photos\":" + std::to_string(photos.size());
  for (int which = 0; which < kCases; ++which) {
    double sum = 0;
    for (double value : medians[which]) sum += value;
    const bool whole = which == kFull || which == kFullRowIndex || which == kMakeIndex;
    const auto& reference = medians[whole ? kTurboFull : kTurboRegion];
    double reference_sum = 0;
    for (double value : reference) reference_sum += value;
    if (which <= kTurboRegion) {
      std::printf("%-20s %10.1f\n", kCaseNames[which], sum / n * 1e6);
      continue;
    }
    const Ratio r = ratio(reference, medians[which]);
    std::printf("%-20s %10.1f   %5.2f  %5.2f %5.2f %5.2f\n", kCaseNames[which], sum / n * 1e6,
                reference_sum / sum, r.p5, r.p50, r.p95);
    char text[200];
    std::snprintf(text, sizeof text,
                  ",\"%s\":{\"us\":%.1f,\"total\":%.3f,\"p5\":%.3f,\"p50\":%.3f,\"p95\":%.3f}",
                  kCaseNames[which], sum / n * 1e6, reference_sum / sum, r.p5, r.p50, r.p95);
    json += text;
  }
  std::printf("%s}\n", json.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const char* data = std::getenv("CARYA_TEST_DATA");
  std::string folder = data == nullptr ? "" : std::string(data) + "/images/imagenet_sample";
  int reps = 5;
  std::size_t every = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--smoke") {
      reps = 1;
      every = 100;
    } else if (option == "--photos") {
      folder = value;
      ++i;
    } else if (option == "--reps") {
      reps = std::max(1, std::atoi(value));
      ++i;
    } else if (option == "--every") {
      every = static_cast<std::size_t>(std::max(1, std::atoi(value)));
      ++i;
    } else if (option == "--target" && carya::force_simd_target(value)) {
      ++i;
    } else {
      std::fprintf(stderr,
                   "bench_jpeg [--photos DIR] [--reps N] [--every N] [--target NAME] [--smoke]; targets:");
      for (const std::string& name : carya::simd_targets()) std::fprintf(stderr, " %s", name.c_str());
      std::fprintf(stderr, "\n");
      return 2;
    }
  }
  if (folder.empty() || !std::filesystem::is_directory(folder)) {
    std::printf(
        "{\"bench\":\"jpeg\",\"skipped\":\"no folder of photos: --photos DIR or CARYA_TEST_DATA\"}\n");
    return 0;
  }
  const std::vector<Photo> photos = load(folder, every);
  if (photos.empty()) {
    std::printf("{\"bench\":\"jpeg\",\"skipped\":\"no ordinary JPEG in the folder\"}\n");
    return 0;
  }
  report(photos, measure(photos, reps));
  return 0;
}
