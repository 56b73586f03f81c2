// Question: what do packed coefficients of a photo cost, in bytes and in time, beside its JPEG with an index? Ceiling:
// the region from the JPEG with a point every 8 MCUs, timed in the same run on the same crops; the bars of the format are
// a region in 0.60 of that, 1.15 of the JPEG's bytes, and making an entry in 1.5 ms beyond the decode. Times are CPU
// time. Own flags: --photos DIR, --reps N, --every N, --target NAME.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "bench/jpeg_cases.h"
#include "bench/median.h"
#include "bench/program.h"
#include "transforms/coefficients/packer.h"
#include "transforms/coefficients/unpacker.h"
#include "transforms/jpeg/decoder.h"
#include "transforms/jpeg/index.h"
#include "transforms/simd/targets.h"

namespace {

using carya::bench::random_resized_crop;
using carya::coefficients::Packer;
using carya::coefficients::Unpacker;
using carya::jpeg::Decoder;
using carya::jpeg::Index;
using carya::jpeg::Mode;
using carya::jpeg::Outcome;
using carya::jpeg::Region;
using Bytes = std::vector<std::uint8_t>;

constexpr double kShareMax = 1.3;  // a larger entry is not kept

struct Photo {
  Bytes file, entry;
  int width = 0;
  int height = 0;
  Index every8{8};
};

// Takes coefficients and does nothing: reading them without packing.
class Nowhere final : public carya::jpeg::CoefficientSink {
 public:
  void take(int, const std::int16_t*) override {}
};

enum Side { kIndexed, kPacked, kRead, kMade, kSides };
constexpr const char* kSideNames[kSides] = {"indexed", "packed", "read", "made"};

struct Runner {
  Decoder decoder;
  Packer packer;
  Unpacker unpacker;
  Bytes out;

  bool make(const Photo& photo, bool packs) {
    if (decoder.recognise(photo.file) != carya::jpeg::Ordinary::kOrdinary) return false;
    if (!packs) {
      Nowhere nowhere;
      return decoder.read_coefficients(photo.file, nowhere) == Outcome::kDone;
    }
    const carya::jpeg::Header header = decoder.header();
    packer.begin(header, {}, SIZE_MAX);
    return decoder.read_coefficients(photo.file, packer) == Outcome::kDone && !packer.finish().empty();
  }
  bool run(Side side, const Photo& photo, const Region& crop) {
    const std::size_t stride = static_cast<std::size_t>(crop.width) * 3;
    if (side == kIndexed)
      return decoder.decode(photo.file, crop, Mode::kRgb, out.data(), stride, &photo.every8) ==
             Outcome::kDone;
    if (side == kPacked)
      return unpacker.open(photo.entry) &&
             unpacker.decode(crop, Mode::kRgb, out.data(), stride) == Outcome::kDone;
    return make(photo, side == kMade);
  }
};

std::vector<Photo> load(const std::string& folder, std::size_t every) {
  std::vector<std::filesystem::path> paths;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder))
    if (file.is_regular_file()) paths.push_back(file.path());
  std::ranges::sort(paths);
  Runner runner;
  std::vector<Photo> photos;
  for (std::size_t i = 0; i < paths.size(); i += every) {
    std::ifstream in(paths[i], std::ios::binary);
    Photo photo;
    photo.file.assign(std::istreambuf_iterator<char>(in), {});
    Decoder& decoder = runner.decoder;
    if (decoder.recognise(photo.file) != carya::jpeg::Ordinary::kOrdinary) continue;
    if (decoder.header().component_count != 3) continue;
    photo.width = decoder.header().width;
    photo.height = decoder.header().height;
    const std::size_t stride = static_cast<std::size_t>(photo.width) * 3;
    Bytes out(stride * static_cast<std::size_t>(photo.height));
    if (decoder.decode(photo.file, {0, 0, photo.width, photo.height}, Mode::kRgb, out.data(), stride, nullptr,
                       &photo.every8) != Outcome::kDone)
      continue;
    const carya::jpeg::Header header = decoder.header();
    runner.packer.begin(header, {}, SIZE_MAX);
    if (decoder.read_coefficients(photo.file, runner.packer) != Outcome::kDone) continue;
    const auto entry = runner.packer.finish();
    photo.entry.assign(entry.begin(), entry.end());
    if (!photo.entry.empty()) photos.push_back(std::move(photo));
  }
  return photos;
}

/// Each repetition has another crop of each photo, which all sides take at once, in turns.
void measure(benchmark::State& state, const std::vector<Photo>& photos) {
  Runner runner;
  std::size_t most = 0;
  for (const Photo& photo : photos)
    most = std::max(most, static_cast<std::size_t>(photo.width) * static_cast<std::size_t>(photo.height));
  runner.out.resize(3 * most);
  std::vector<std::vector<std::vector<double>>> ns(kSides, std::vector<std::vector<double>>(photos.size()));
  std::mt19937_64 random(7);
  std::size_t turn = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (std::size_t p = 0; p < photos.size(); ++p, ++turn) {
      const Region crop = random_resized_crop(photos[p].width, photos[p].height, random);
      for (std::size_t i = 0; i < kSides; ++i) {
        const std::size_t side = (i + turn) % kSides;
        const std::int64_t start = carya::thread_cpu_ns();
        CHECK(runner.run(static_cast<Side>(side), photos[p], crop));
        ns[side][p].push_back(static_cast<double>(carya::thread_cpu_ns() - start));
      }
    }
  }
  double mean[kSides] = {};
  std::vector<double> ratios;
  for (std::size_t p = 0; p < photos.size(); ++p) {
    for (std::size_t side = 0; side < kSides; ++side) mean[side] += carya::bench::median(ns[side][p]);
    ratios.push_back(carya::bench::median(ns[kPacked][p]) / carya::bench::median(ns[kIndexed][p]));
  }
  for (std::size_t side = 0; side < kSides; ++side)
    state.counters[std::string(kSideNames[side]) + "_us"] =
        mean[side] / static_cast<double>(photos.size()) / 1e3;
  state.counters["packed_to_indexed"] = mean[kPacked] / mean[kIndexed];
  state.counters["packed_to_indexed_p50"] = carya::bench::median(ratios);
  state.counters["packing_us"] = (mean[kMade] - mean[kRead]) / static_cast<double>(photos.size()) / 1e3;
}

/// What the photos are, and the bytes of their entries.
void describe(const std::vector<Photo>& photos) {
  std::size_t files = 0, entries = 0, kept_files = 0, kept = 0, large = 0;
  std::vector<double> shares;
  for (const Photo& photo : photos) {
    files += photo.file.size();
    entries += photo.entry.size();
    const double share = static_cast<double>(photo.entry.size()) / static_cast<double>(photo.file.size());
    shares.push_back(share);
    if (share > kShareMax) {
      ++large;
    } else {
      kept_files += photo.file.size();
      kept += photo.entry.size();
    }
  }
  std::ranges::sort(shares);
  const auto share = [](std::size_t a, std::size_t b) {
    return std::to_string(static_cast<double>(a) / static_cast<double>(std::max<std::size_t>(b, 1)));
  };
  benchmark::AddCustomContext("target", carya::simd_target());
  benchmark::AddCustomContext("photos", std::to_string(photos.size()));
  benchmark::AddCustomContext("bytes per photo", std::to_string(files / photos.size()));
  benchmark::AddCustomContext("entries to files", share(entries, files));
  benchmark::AddCustomContext("p50", std::to_string(shares[shares.size() / 2]));
  benchmark::AddCustomContext("p95", std::to_string(shares[shares.size() * 95 / 100]));
  benchmark::AddCustomContext("photos over 1.3", std::to_string(large));
  benchmark::AddCustomContext("entries to files, those up to 1.3", share(kept, kept_files));
}

}  // namespace

int main(int argc, char** argv) {
  carya::bench::Program program(argc, argv);
  const auto flags = carya::bench::jpeg_flags(program, "bench_coefficients");
  if (!flags) return 2;
  std::vector<Photo> photos;
  if (std::filesystem::is_directory(flags->folder)) photos = load(flags->folder, flags->every);
  if (photos.empty())
    std::fprintf(stderr,
                 "bench_coefficients: left out: no ordinary JPEG; give --photos DIR or CARYA_TEST_DATA\n");
  else
    describe(photos);
  if (!photos.empty())
    benchmark::RegisterBenchmark("region", measure, std::cref(photos))
        ->Iterations(static_cast<std::int64_t>(flags->repetitions))
        ->Unit(benchmark::kMillisecond);
  return program.run();
}
