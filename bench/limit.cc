// The bound of the main job: one bare loop per core, photos in memory, libjpeg-turbo region decode with the
// one-pixel margin, then our SIMD antialiased resize to 224 x 224 and the fused store. Ceiling: the same
// decode by a plain libjpeg-turbo loop that includes nothing of ours (within 1 %); everything after the
// decode <= 60 us with AVX-512, <= 90 us with AVX2. Bound B is the same loop over our own decoder, without an
// index and with complete ones in memory, which is what a loader in the same state is compared with. Crops
// are drawn anew in each round.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "bench/photos.h"
#include "bench/plain_jpeg.h"
#include "transforms/kernels/codec/field_index.h"
#include "transforms/kernels/codec/image_codec.h"
#include "transforms/kernels/codec/jpeg_dispatch.h"
#include "transforms/kernels/codec/turbo_jpeg.h"
#include "transforms/kernels/resize/resize.h"
#include "transforms/kernels/store/store.h"
#include "transforms/simd/targets.h"

namespace {

using namespace carya;
using namespace carya::bench;

constexpr std::int64_t kSize = 224;
constexpr std::size_t kRing =
    256;  // pictures in the ring of outputs: past every cache, like a loader's slots

struct Options {
  std::string photos;
  std::string simd;
  int rounds = 7;
  bool smoke = false;
  bool bounds = false;  // leave out the stages
};

// The loops compared: over libjpeg-turbo (A); over our own decoder without an index, and with complete ones.
struct Bound {
  const char* title;
  const char* key;  // in the JSON line, before the form
  bool own;
  int spacing;  // of the index, -1: none
};
constexpr Bound kBounds[] = {{"A, libjpeg-turbo", "", false, -1},
                             {"B, own decoder", "own_", true, -1},
                             {"B, row index", "own_rows_", true, 0},
                             {"B, 8-MCU index", "own_8_", true, 8}};
constexpr std::size_t kBoundCount = std::size(kBounds);

/// The photos' complete indexes; empty where a file gets none.
std::vector<std::vector<std::byte>> complete_indexes(const std::vector<Photo>& photos, int spacing) {
  IndexMaker maker;
  std::vector<std::vector<std::byte>> made;
  for (const Photo& photo : photos) {
    FieldIndex index{.spacing = spacing};
    (void)maker.complete(photo.bytes, index);
    const auto bytes = std::as_bytes(std::span(index.made));
    made.emplace_back(bytes.begin(), bytes.end());
  }
  return made;
}

// --- The loop with our stages, each timed by itself or all together. ---

struct Stages {
  double plain = 0, header = 0, decode = 0, own = 0, resize = 0, store_u8 = 0, fused_u8 = 0, fused_f32 = 0;
};

class Worker {
 public:
  explicit Worker(const std::vector<Photo>& photos) : photos_(photos) {
    std::int64_t most = 0;
    for (const Photo& p : photos) most = std::max(most, p.info.width * (p.info.height + 16) * 4 + 4096);
    pixels_.resize(static_cast<std::size_t>(most));
    slots_.resize(kRing * kSize * kSize * 3 * 4 + 64);
    small_.resize(kSize * kSize * 3);
    constexpr std::array kMean{0.485, 0.456, 0.406}, kStd{0.229, 0.224, 0.225};
    Affine affine;
    for (std::size_t c = 0; c < 3; ++c) affine.normalize(c, kMean[c], kStd[c], 255.0);
    for (int i = 0; i < 2; ++i) {
      specs_[i] = {.height = kSize,
                   .width = kSize,
                   .channels = 3,
                   .layout = i == 0 ? Layout::kHwc : Layout::kChw,
                   .to_float = i == 1,
                   .affine = affine};
    }
  }

  // One pass over the photos; CPU microseconds per photo of each stage.
  Stages pass() {
    Stages s;
    const double scale = 1e-3 / static_cast<double>(photos_.size());
    const auto timed = [&](auto&& work) {
      const std::int64_t begin = thread_cpu_ns();
      for (std::size_t i = 0; i < photos_.size(); ++i) work(photos_[i]);
      return static_cast<double>(thread_cpu_ns() - begin) * scale;
    };
    s.plain = timed([&](const Photo& p) { plain_.decode(p, pixels_.data()); });
    s.header = timed([&](const Photo& p) { (void)turbo_.open(p.bytes, {}); });
    s.decode = timed([&](const Photo& p) { decode(turbo_, p); });
    s.own = timed([&](const Photo& p) { decode(own_, p); });
    // The stages after the decode work on what it left in the cache, so they are timed photo by photo, each
    // in a pass of its own: a second resize of the same crop would find its weights made.
    const auto timed_after = [&](auto&& before, auto&& work) {
      std::int64_t sum = 0;
      for (const Photo& p : photos_) {
        const ImageView view = decode(own_, p);
        before(p, view);
        sum += ns([&] { work(p, view); });
      }
      return static_cast<double>(sum) * scale;
    };
    const auto nothing = [](const Photo&, const ImageView&) {};
    const auto resize = [&](const Photo&, const ImageView& v) {
      resizer_.resize(v, {kSize, kSize}, small_view());
    };
    s.resize = timed_after(nothing, resize);
    s.store_u8 = timed_after(resize, [&](const Photo& p, const ImageView&) { store(p, 0); });
    s.fused_u8 = timed_after(nothing, [&](const Photo& p, const ImageView& v) { fused(p, v, 0); });
    s.fused_f32 = timed_after(nothing, [&](const Photo& p, const ImageView& v) { fused(p, v, 1); });
    return s;
  }

  /// Everything, kind 0 uint8 or 1 float32; `indexes` are empty or one per photo.
  void whole(int kind, const Bound& bound, const std::vector<std::vector<std::byte>>& indexes) {
    for (std::size_t i = 0; i < photos_.size(); ++i) {
      if (!bound.own) {
        fused(photos_[i], decode(turbo_, photos_[i]), kind);
      } else if (indexes.empty()) {
        fused(photos_[i], decode(own_, photos_[i]), kind);
      } else {
        index_.known = indexes[i];
        index_.spacing = bound.spacing;
        fused(photos_[i], decode(own_, photos_[i], &index_), kind);
      }
    }
  }

 private:
  template <typename Work>
  static std::int64_t ns(const Work& work) {
    const std::int64_t begin = thread_cpu_ns();
    work();
    return thread_cpu_ns() - begin;
  }
  template <typename Decoder>
  static ImageView decode(Decoder& decoder, const Photo& p, FieldIndex* index = nullptr) {
    (void)decoder.open(p.bytes, {});
    if constexpr (std::is_same_v<Decoder, JpegDispatch>) decoder.set_index(index);
    auto view = decoder.decode_view(p.region, ColorMode::kRgb);
    if (!view) std::abort();
    return *view;
  }
  MutableImageView small_view() { return {small_.data(), kSize, kSize, 3, kSize * 3}; }
  std::byte* next_slot() {
    std::byte* base = slots_.data() + (64 - reinterpret_cast<std::uintptr_t>(slots_.data()) % 64) % 64;
    next_ = (next_ + 1) % kRing;
    return base + next_ * kSize * kSize * 3 * 4;
  }
  void store(const Photo& p, int kind) {
    StoreSpec spec = specs_[kind];
    spec.flip_horizontal = p.flip;
    store_image(small_view(), spec, next_slot());
  }
  void fused(const Photo& p, const ImageView& view, int kind) {
    StoreSpec spec = specs_[kind];
    spec.flip_horizontal = p.flip;
    RowStore rows(spec, next_slot());
    resizer_.resize_rows(view, {kSize, kSize}, rows.sink());
    rows.finish();
  }

  const std::vector<Photo>& photos_;
  PlainLoop plain_;
  TurboJpeg turbo_;
  JpegDispatch own_;
  FieldIndex index_;
  Resizer resizer_;
  StoreSpec specs_[2];
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> small_;
  std::vector<std::byte> slots_;
  std::size_t next_ = 0;
};

struct Rate {
  double per_second = 0;
  double cpu_us = 0;
};

Rate run_threads(std::vector<Worker*> workers, std::size_t photos, int kind, const Bound& bound,
                 const std::vector<std::vector<std::byte>>& indexes) {
  std::vector<std::thread> threads;
  std::vector<std::int64_t> cpu(workers.size());
  const std::int64_t begin = monotonic_ns();
  for (std::size_t t = 0; t < workers.size(); ++t) {
    threads.emplace_back([&, t] {
      workers[t]->whole(kind, bound, indexes);
      cpu[t] = thread_cpu_ns();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto wall = static_cast<double>(monotonic_ns() - begin);
  std::int64_t total = 0;
  for (const std::int64_t ns : cpu) total += ns;
  const double count = static_cast<double>(photos * workers.size());
  return {count / wall * 1e9, static_cast<double>(total) / count * 1e-3};
}

// --- What is shown: medians over the rounds. ---

class StageFigures {
 public:
  void add(const Stages& s) { passes_.push_back(s); }

  void show(nlohmann::ordered_json& json) const {
    const auto over = [&](double Stages::* stage) {
      std::vector<double> values;
      for (const Stages& s : passes_) values.push_back(s.*stage);
      return values;
    };
    std::vector<double> ratio;
    for (const Stages& s : passes_) ratio.push_back(s.decode / s.plain);
    struct Line {
      const char* title;
      const char* key;
      double Stages::* stage;
    };
    constexpr Line kLines[] = {
        {"libjpeg-turbo alone: header, region", "plain_decode_us", &Stages::plain},
        {"ours: header, verdict, region", "decode_us", &Stages::decode},
        {"  of it header and verdict", "header_us", &Stages::header},
        {"our own decoder: header, verdict, region", "own_decode_us", &Stages::own},
        {"resize 224, antialias", "resize_us", &Stages::resize},
        {"store uint8 (flip)", "store_uint8_us", &Stages::store_u8},
        {"resize + store uint8 HWC", "resize_store_uint8_us", &Stages::fused_u8},
        {"resize + normalized store float32 CHW", "resize_store_float32_us", &Stages::fused_f32}};
    std::printf("%-44s %10s\n", "per photo", "CPU us");
    for (const Line& line : kLines) {
      json[line.key] = median(over(line.stage));
      std::printf("%-44s %10.1f\n", line.title, median(over(line.stage)));
    }
    json["decode_over_plain"] = median(ratio);
    json["decode_spread"] = spread(over(&Stages::decode));
    json["resize_store_float32_spread"] = spread(over(&Stages::fused_f32));
    std::printf("%-44s %10.4f\n", "ours over libjpeg-turbo alone", median(ratio));
  }

 private:
  std::vector<Stages> passes_;
};

class BoundFigures {
 public:
  void add(std::size_t bound, int kind, int thread, const Rate& rate) {
    per_second_[bound][kind][thread].push_back(rate.per_second);
    cpu_us_[bound][kind][thread].push_back(rate.cpu_us);
  }

  void show(nlohmann::ordered_json& json) const {
    const char* forms[2] = {"uint8", "float32"};
    for (std::size_t b = 0; b < kBoundCount; ++b) {
      for (int kind = 0; kind < 2; ++kind) {
        for (int t = 0; t < 2; ++t) {
          const double rate = median(per_second_[b][kind][t]);
          const double cpu = median(cpu_us_[b][kind][t]);
          std::printf("bound %-18s %-7s %d thread%s %8.0f img/s %9.1f CPU us/img (spread %.1f %%)\n",
                      kBounds[b].title, forms[kind], t + 1, t == 0 ? " " : "s", rate, cpu,
                      100 * spread(cpu_us_[b][kind][t]));
          json[std::string(kBounds[b].key) + forms[kind] + "_threads_" + std::to_string(t + 1)] = {
              {"per_second", rate}, {"cpu_us", cpu}};
        }
      }
    }
  }

 private:
  std::vector<double> per_second_[kBoundCount][2][2];  // form, threads - 1
  std::vector<double> cpu_us_[kBoundCount][2][2];
};

Options parse(int argc, char** argv) {
  Options options;
  const char* data = std::getenv("CARYA_TEST_DATA");
  if (data != nullptr) options.photos = std::string(data) + "/images/imagenet_sample";
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool more = i + 1 < argc;
    if (flag == "--smoke") {
      options.smoke = true;
      options.photos.clear();
      options.rounds = 2;
    } else if (flag == "--bounds") {
      options.bounds = true;
    } else if (flag == "--photos" && more) {
      options.photos = argv[++i];
    } else if (flag == "--rounds" && more) {
      options.rounds = std::max(1, std::atoi(argv[++i]));
    } else if (flag == "--simd" && more) {
      options.simd = argv[++i];
    } else {
      std::fprintf(stderr,
                   "usage: bench_limit [--smoke] [--bounds] [--photos DIR] [--rounds N] [--simd TARGET]\n");
      std::exit(2);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (auto forced = force_simd_target(options.simd); !forced) {
    std::fprintf(stderr, "%s\n", forced.error().message.c_str());
    return 2;
  }
  std::vector<Photo> photos = load_photos(options.photos);
  if (photos.empty()) {
    std::fprintf(stderr, "no photos in %s\n", options.photos.c_str());
    return 1;
  }
  nlohmann::ordered_json json{
      {"bench", "limit"}, {"simd", simd_target()}, {"photos", photos.size()}, {"rounds", options.rounds}};
  Worker one(photos);
  Worker two(photos);
  std::vector<std::vector<std::byte>> indexes[kBoundCount];
  for (std::size_t b = 0; b < kBoundCount; ++b)
    if (kBounds[b].spacing >= 0) indexes[b] = complete_indexes(photos, kBounds[b].spacing);
  StageFigures stages;
  BoundFigures bounds;
  Draws draws;
  (void)one.pass();
  for (int round = 0; round < options.rounds; ++round) {
    for (Photo& photo : photos) photo.region = draws.crop(photo.info);
    if (!options.bounds) stages.add(one.pass());
    for (std::size_t b = 0; b < kBoundCount; ++b) {
      for (int kind = 0; kind < 2; ++kind) {
        bounds.add(b, kind, 0, run_threads({&one}, photos.size(), kind, kBounds[b], indexes[b]));
        bounds.add(b, kind, 1, run_threads({&one, &two}, photos.size(), kind, kBounds[b], indexes[b]));
      }
    }
  }
  if (!options.bounds) stages.show(json);
  bounds.show(json);
  std::printf("%s\n", json.dump().c_str());
  return 0;
}
