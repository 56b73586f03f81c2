// Question: how much faster than libjpeg-turbo does transforms/jpeg decode photos, whole and in part, on one
// core? Ceiling: there is none to reach but libjpeg-turbo's own loop over the same bytes, timed in the same
// run, one image after the other; the ratio to it is taken per image. Times are CPU time, headers and
// tables included. Own flags: --photos DIR, --reps N, --every N, --target NAME.

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <jpeglib.h>  // after <cstdio>, which it needs

#include "base/clock.h"
#include "base/error.h"
#include "bench/jpeg_cases.h"
#include "bench/median.h"
#include "bench/program.h"
#include "transforms/jpeg/decoder.h"
#include "transforms/jpeg/index.h"
#include "transforms/simd/targets.h"

namespace {

using carya::bench::random_resized_crop;
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

enum Case { kFull, kRegion, kRowIndex, kIndex8, kFullRowIndex, kMakeIndex, kCases };
constexpr const char* kCaseNames[kCases] = {
    "full", "region", "region_row_index", "region_8mcu_index", "full_row_index", "full_making_8mcu"};

bool is_whole(Case which) {
  return which == kFull || which == kFullRowIndex || which == kMakeIndex;
}

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

/// The least room that both decoders need for any of the photos.
std::size_t pixels_most(const std::vector<Photo>& photos) {
  std::size_t pixels = 0;
  for (const Photo& photo : photos)
    pixels = std::max(pixels, static_cast<std::size_t>(photo.width) * static_cast<std::size_t>(photo.height));
  return pixels;
}

/// Each repetition has another crop of each photo, which both decode at once, one first in turns.
class Measured {
 public:
  Measured(const std::vector<Photo>& photos, Case which)
      : photos_(photos), which_(which), turbo_ns_(photos.size()), own_ns_(photos.size()) {
    runner_.out.resize(3 * pixels_most(photos));
  }

  void repeat() {
    for (std::size_t p = 0; p < photos_.size(); ++p) {
      const Photo& photo = photos_[p];
      const Region crop = random_resized_crop(photo.width, photo.height, random_);
      const Region* const region = is_whole(which_) ? nullptr : &crop;
      for (int turn = 0; turn < 2; ++turn) {
        const bool own = (p + static_cast<std::size_t>(turn) + repetitions_) % 2 == 1;
        const std::int64_t start = carya::thread_cpu_ns();
        const bool done =
            own ? runner_.run(which_, photo, crop) : runner_.turbo.decode(photo.bytes, region, runner_.out);
        (own ? own_ns_ : turbo_ns_)[p].push_back(static_cast<double>(carya::thread_cpu_ns() - start));
        CHECK(done);  // load() has decoded every photo
      }
    }
    ++repetitions_;
  }

  /// Of each photo the median of the repetitions: their means in us, and the quotients over the photos.
  void report(benchmark::State& state) const {
    double own = 0, turbo = 0;
    std::vector<double> ratio;
    for (std::size_t p = 0; p < photos_.size(); ++p) {
      const double own_ns = carya::bench::median(own_ns_[p]), turbo_ns = carya::bench::median(turbo_ns_[p]);
      own += own_ns;
      turbo += turbo_ns;
      ratio.push_back(turbo_ns / own_ns);
    }
    std::ranges::sort(ratio);
    const auto n = static_cast<double>(photos_.size());
    state.counters["us"] = own / n / 1e3;
    state.counters["turbo_us"] = turbo / n / 1e3;
    state.counters["ratio"] = turbo / own;
    state.counters["ratio_p5"] = ratio[ratio.size() * 5 / 100];
    state.counters["ratio_p50"] = ratio[ratio.size() / 2];
    state.counters["ratio_p95"] = ratio[ratio.size() * 95 / 100];
  }

 private:
  const std::vector<Photo>& photos_;
  const Case which_;
  Runner runner_;
  std::mt19937_64 random_{7};
  std::size_t repetitions_ = 0;
  std::vector<std::vector<double>> turbo_ns_, own_ns_;  // per photo, of each repetition
};

void decode(benchmark::State& state, const std::vector<Photo>& photos, Case which) {
  Measured measured(photos, which);
  for ([[maybe_unused]] auto _ : state) measured.repeat();
  measured.report(state);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(photos.size()));
}

/// What the photos are, beside the figures.
void describe(const std::vector<Photo>& photos) {
  std::size_t bytes = 0;
  Bytes rows, every8;
  for (const Photo& photo : photos) {
    bytes += photo.bytes.size();
    photo.rows.write(rows);
    photo.every8.write(every8);
  }
  const auto mean = [&](std::size_t all) { return std::to_string(all / photos.size()); };
  benchmark::AddCustomContext("target", carya::simd_target());
  benchmark::AddCustomContext("photos", std::to_string(photos.size()));
  benchmark::AddCustomContext("bytes per photo", mean(bytes));
  benchmark::AddCustomContext("bytes per row index", mean(rows.size()));
  benchmark::AddCustomContext("bytes per 8-MCU index", mean(every8.size()));
}

}  // namespace

int main(int argc, char** argv) {
  carya::bench::Program program(argc, argv);
  const auto flags = carya::bench::jpeg_flags(program, "bench_jpeg");
  if (!flags) return 2;
  std::vector<Photo> photos;
  if (std::filesystem::is_directory(flags->folder)) photos = load(flags->folder, flags->every);
  if (photos.empty())
    std::fprintf(stderr, "bench_jpeg: left out: no ordinary JPEG; give --photos DIR or CARYA_TEST_DATA\n");
  else
    describe(photos);
  for (int which = 0; which < kCases && !photos.empty(); ++which)
    benchmark::RegisterBenchmark(kCaseNames[which], decode, std::cref(photos), static_cast<Case>(which))
        ->Iterations(static_cast<std::int64_t>(flags->repetitions))
        ->Unit(benchmark::kMillisecond);
  return program.run();
}
