// Question: what does a second of 16 kHz FLAC cost on its way to padded, masked log-mel frames? Ceiling ("bound_us"):
// libFLAC in a bare loop, the kernel of spectra on what it gives, masks, and zeros behind it. Each case runs both in
// turns; us per second of audio are CPU time, medians. Data: CARYA_TEST_DATA/speech/librispeech_dali, or one short file.

#include <FLAC/stream_decoder.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numbers>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/pairs.h"
#include "bench/program.h"
#include "transforms/audio/signal/spectrum_simd.h"
#include "transforms/plan/plan.h"

namespace {

using namespace carya::transforms;

constexpr std::size_t kSeconds = 16;  // of a padded clip
constexpr std::size_t kFrames = 1 + (kSeconds * 16'000 - 400) / 160;
constexpr std::size_t kBands = 80;

template <typename Function>
Function* flac(Function*, const char* name) {
  static void* const library = ::dlopen("libFLAC.so.12", RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}
#define CARYA_FLAC(name) flac(&name, #name)

/// What the decoder reads, and where its samples go.
struct Clip {
  std::span<const std::byte> file;
  std::size_t at = 0;
  std::vector<float> samples = std::vector<float>(kSeconds * 16'000 + (1 << 16));
  std::size_t count = 0;

  static FLAC__StreamDecoderReadStatus read(const FLAC__StreamDecoder*, FLAC__byte* out, std::size_t* bytes,
                                            void* self) {
    auto& clip = *static_cast<Clip*>(self);
    *bytes = std::min(*bytes, clip.file.size() - clip.at);
    std::memcpy(out, clip.file.data() + clip.at, *bytes);
    clip.at += *bytes;
    return *bytes > 0 ? FLAC__STREAM_DECODER_READ_STATUS_CONTINUE
                      : FLAC__STREAM_DECODER_READ_STATUS_END_OF_STREAM;
  }
  static FLAC__StreamDecoderWriteStatus write(const FLAC__StreamDecoder*, const FLAC__Frame* frame,
                                              const FLAC__int32* const* channels, void* self) {
    auto& clip = *static_cast<Clip*>(self);
    const std::size_t fits = std::min<std::size_t>(frame->header.blocksize, clip.samples.size() - clip.count);
    for (std::size_t i = 0; i < fits; ++i) clip.samples[clip.count + i] = static_cast<float>(channels[0][i]);
    clip.count += fits;
    return FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE;
  }
  static void error(const FLAC__StreamDecoder*, FLAC__StreamDecoderErrorStatus, void*) {}
};

SpectrumPlan kaldi() {
  SpectrumOptions options{.n_fft = 512, .window_length = 400, .hop = 160};
  for (int i = 0; i < 400; ++i)
    options.window.push_back(
        static_cast<float>(std::pow(0.5 - 0.5 * std::cos(2 * std::numbers::pi * i / 399), 0.85)));
  options.subtract_mean = true;
  options.preemphasis = 0.97F;
  options.bank = make_mel_bank(MelScale::kKaldi, kBands, 512, 16'000, 20, 8'000);
  options.logarithm = Logarithm::kFloor;
  options.floor = 1.1920929e-7F;
  return SpectrumPlan(std::move(options));
}

/// A batch row by the libraries alone.
class Bound {
 public:
  Bound()
      : plan_(kaldi()),
        work_(static_cast<float*>(std::aligned_alloc(64, (plan_.work_values() * 4 + 63) / 64 * 64))) {}
  ~Bound() { std::free(work_); }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  void run(std::span<const std::byte> file, float* out) {
    static auto* const create = CARYA_FLAC(FLAC__stream_decoder_new);
    static auto* const init = CARYA_FLAC(FLAC__stream_decoder_init_stream);
    static auto* const decode = CARYA_FLAC(FLAC__stream_decoder_process_until_end_of_stream);
    static auto* const finish = CARYA_FLAC(FLAC__stream_decoder_finish);
    static FLAC__StreamDecoder* const decoder = create();
    clip_.file = file;
    clip_.at = clip_.count = 0;
    init(decoder, Clip::read, nullptr, nullptr, nullptr, nullptr, Clip::write, nullptr, Clip::error, &clip_);
    decode(decoder);
    finish(decoder);
    const std::size_t samples = std::min(clip_.count, kSeconds * 16'000);
    std::fill_n(clip_.samples.data() + samples, 1 << 13, 0.0F);
    const std::size_t frames = samples < 400 ? 0 : 1 + (samples - 400) / 160;
    spectrum_frames(plan_, clip_.samples.data(), frames, work_, out, kBands, 1);
    for (int mask = 0; mask < 2 && frames > 0; ++mask) {
      const std::size_t width = random_() % std::min<std::size_t>(100, frames),
                        at = random_() % (frames - width);
      std::memset(out + at * kBands, 0, width * kBands * sizeof(float));
      const std::size_t high = random_() % 27, first = random_() % (kBands - high);
      for (std::size_t f = 0; f < frames; ++f) std::memset(out + f * kBands + first, 0, high * sizeof(float));
    }
    std::memset(out + frames * kBands, 0, (kFrames - frames) * kBands * sizeof(float));
  }

 private:
  SpectrumPlan plan_;
  float* work_;
  Clip clip_;
  std::mt19937 random_{1};
};

std::vector<std::vector<std::byte>> files() {
  std::vector<std::string> paths;
  const char* const data = std::getenv("CARYA_TEST_DATA");
  const std::string folder = data ? std::string(data) + "/speech/librispeech_dali" : "";
  if (data && std::filesystem::is_directory(folder))
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".flac") paths.push_back(entry.path());
  if (paths.empty()) paths.push_back("tests/fuzz/corpus/audio/a.flac");
  std::ranges::sort(paths);
  std::vector<std::vector<std::byte>> read;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    std::vector<std::byte> file(bytes.size() + 1);  // one readable byte behind the end
    std::memcpy(file.data(), bytes.data(), bytes.size());
    read.push_back(std::move(file));
  }
  return read;
}

void speech(benchmark::State& state, bool smoke) {
  static const std::vector<std::vector<std::byte>> all = files();
  const auto pipeline = Pipeline::parse(
      R"({"version":1,"source":{"type":"files","paths":["x"],"field":"audio"},"ops":[{"op":"decode_audio","rate":16000},
          {"op":"pad_audio","seconds":16},{"op":"log_mel","kind":"kaldi"},{"op":"spec_augment"}],
          "batch":{"batch_size":1}})");
  CHECK(pipeline.has_value());
  const auto plan = Plan::compile(*pipeline, {});
  CHECK(plan.has_value());
  Scratch scratch;
  Bound bound;
  std::vector<float> out(kFrames * kBands);
  std::int64_t length = 0;
  double seconds = 0;
  const int rounds = smoke ? 1 : 8;
  const auto own = [&](std::uint64_t i) {
    const std::array<std::span<const std::byte>, 1> inputs{std::span(all[i]).first(all[i].size() - 1)};
    const std::array<std::byte*, 2> outputs{reinterpret_cast<std::byte*>(out.data()),
                                            reinterpret_cast<std::byte*>(&length)};
    return (*plan)->run(scratch, {.record = i}, inputs, outputs);
  };
  for (std::uint64_t i = 0; i < all.size(); ++i)
    if (own(i)) seconds += static_cast<double>(length) / 100;
  const auto us = [&](auto&& one) {
    return 1e-3 / std::max(seconds, 0.01) *
           carya::bench::cpu_ns_per_item(1,
                                         [&] {
                                           for (int round = 0; round < rounds; ++round)
                                             for (std::uint64_t i = 0; i < all.size(); ++i) one(i);
                                         }) /
           rounds;
  };
  carya::bench::run_in_turns(
      state,
      {{"bound_us",
        [&] {
          return us(
              [&](std::uint64_t i) { bound.run(std::span(all[i]).first(all[i].size() - 1), out.data()); });
        }},
       {"us", [&] { return us([&](std::uint64_t i) { benchmark::DoNotOptimize(own(i).has_value()); }); }}});
}

}  // namespace

int main(int argc, char** argv) {
  carya::bench::Program program(argc, argv);
  benchmark::RegisterBenchmark("FLAC to masked log-mel", speech, program.smoke())
      ->Iterations(program.smoke() ? 1 : 15)
      ->UseManualTime();
  return program.run();
}
