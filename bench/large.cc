// Question: how much sooner is one large photo ready when its bands run on several cores? Ceiling: the number of those
// cores. Each case decodes, resizes to 224 x 224 and normalizes one generated photo, in turns on one core and on
// --threads (2) of them: plain, with an index of rows, with one of 8 MCUs, and in restart intervals of a row.
// `one_ms` and `ms` are wall times, `one_cpu_ms` and `cpu_ms` the CPU time of all threads: on a machine with other work
// only the latter mean something, and with them `one_cpu_ms_to_two_cores_ms`: the quotient that the CPU times of the parts would
// allow on two idle cores, without the memory that both share. Own flags: --threads N, --megapixels N.

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "bench/pairs.h"
#include "bench/program.h"
#include "loader/engine/band_crew.h"
#include "tests/jpeg_writer.h"
#include "transforms/plan/plan.h"

namespace {

using namespace carya::transforms;

/// So many cores beside the caller's that nobody needs.
class Cores final : public carya::loader::SpareCores {
 public:
  explicit Cores(int spare) : spare_(spare) {}
  bool take() override {
    int spare = spare_;
    while (spare > 0 && !spare_.compare_exchange_weak(spare, spare - 1)) {
    }
    return spare > 0;
  }
  bool keep() override { return true; }
  void give() override { ++spare_; }

 private:
  std::atomic<int> spare_;
};

/// Runs all parts on the caller's thread, in the order of two cores that each take what comes first, and adds up how
/// long those would take: by the CPU times of the parts.
class TwoCores final : public carya::BandRunner {
 public:
  bool wants(std::int64_t pixels) const override { return pixels >= carya::loader::BandCrew::kPixelsMin; }
  int lanes() const override { return 2; }
  std::int64_t helped_ns() const override { return 0; }
  bool run(carya::BandWork& work, int parts) override {
    std::array<std::int64_t, 2> free{};  // when each core is
    std::int64_t prepared_at = 0;        // when the last one was
    std::vector<std::int64_t> ready;     // when each part was
    std::size_t begun = 0;
    bool good = true;
    while (good && begun < static_cast<std::size_t>(parts)) {
      std::int64_t& core = free[free[1] < free[0] ? 1 : 0];
      const std::size_t ahead = ready.size() - begun, left = static_cast<std::size_t>(parts) - ready.size();
      const bool may_prepare = left > 0 && prepared_at <= core;
      const int lane = &core == free.data() ? 0 : 1;
      const std::int64_t start = carya::thread_cpu_ns();
      if (may_prepare && work.has_rest() && ahead >= left) {
        good = work.run_rest(static_cast<int>(ready.size()), lane);
        core += carya::thread_cpu_ns() - start;
        parts = static_cast<int>(ready.size());
      } else if (may_prepare && (work.has_rest() || ahead < 2)) {
        good = work.prepare(static_cast<int>(ready.size()));
        core += carya::thread_cpu_ns() - start;
        prepared_at = core;
        ready.push_back(core);
      } else if (begun < ready.size() && ready[begun] <= core) {
        good = work.run(static_cast<int>(begun++), lane);
        core += carya::thread_cpu_ns() - start;
      } else {  // it waits for what the other one prepares
        core = begun < ready.size() ? ready[begun] : prepared_at;
      }
      in_parts_ns_ += carya::thread_cpu_ns() - start;
    }
    both_ns_ += std::max(free[0], free[1]);
    return good;
  }

  std::int64_t in_parts_ns() const { return in_parts_ns_; }
  std::int64_t both_ns() const { return both_ns_; }

 private:
  std::int64_t in_parts_ns_ = 0, both_ns_ = 0;
};

enum class Kind { kPlain, kRows, kEvery8, kRestarts };

/// As many bytes per pixel as a photo of a good camera: 0.25 to 0.3.
std::vector<std::byte> photo(std::int64_t megapixels, bool restarts) {
  const auto width =
      static_cast<std::int64_t>(std::sqrt(static_cast<double>(megapixels) * 1e6 * 4 / 3)) / 16 * 16;
  const std::int64_t height = megapixels * 1'000'000 / width;
  std::uint32_t state = 1;
  return carya::write_jpeg(
      height, width, 3, 90,
      [&](std::size_t y, std::span<unsigned char> row) {
        for (std::size_t i = 0; i < row.size(); ++i) {
          const std::size_t x = i / 3;
          if (i % 3 == 0) state = state * 1664525U + 1013904223U;
          const std::size_t shape = (x / 3 + y / 5) % 160 + ((x / 40 + y / 56) % 2) * 40;
          row[i] = static_cast<unsigned char>(20 + shape + (state >> 27) + i % 3 * 8);
        }
      },
      [&](jpeg_compress_struct& info) {
        if (restarts) info.restart_in_rows = 1;
      });
}

struct Sample {
  std::shared_ptr<const Plan> plan;
  std::vector<std::byte> bytes;
  std::vector<std::byte> index;
  int spacing = 0;
  bool indexed = false;
  std::vector<std::byte> out;

  void run(Scratch& scratch) {
    const std::byte label[8]{};
    bytes.reserve(bytes.size() + 1);
    const std::array<std::span<const std::byte>, 2> inputs{bytes, label};
    std::array<std::byte, 8> label_out;
    const std::array<std::byte*, 2> outputs{out.data(), label_out.data()};
    std::array<FieldIndex, 2> indexes;
    indexes[0].known = index;
    indexes[0].spacing = spacing;
    CHECK(plan->run(scratch, {}, inputs, outputs, indexed ? std::span(indexes) : std::span<FieldIndex>{})
              .has_value());
    if (indexed && index.empty())
      index.assign(reinterpret_cast<const std::byte*>(indexes[0].made.data()),
                   reinterpret_cast<const std::byte*>(indexes[0].made.data()) + indexes[0].made.size());
  }
};

Sample sample_of(Kind kind, std::int64_t megapixels) {
  const auto pipeline = Pipeline::parse(
      R"({"version":1,"source":{"type":"image_folder","path":"x"},"ops":[{"op":"decode_image"},)"
      R"({"op":"resize","size":[224,224]},{"op":"normalize","mean":0.4,"std":0.2}],"batch":{"batch_size":1}})");
  Sample sample{.plan = carya::bench::must(Plan::compile(carya::bench::must(pipeline), {})),
                .bytes = photo(megapixels, kind == Kind::kRestarts)};
  sample.spacing = kind == Kind::kEvery8 ? 8 : 0;
  sample.indexed = kind == Kind::kRows || kind == Kind::kEvery8;
  sample.out.resize(static_cast<std::size_t>(sample.plan->outputs().front().bytes()));
  return sample;
}

std::int64_t process_cpu_ns() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void large(benchmark::State& state, Kind kind, std::int64_t megapixels, int threads) {
  Sample sample = sample_of(kind, megapixels);
  Scratch one, several, counted;
  sample.run(one);  // makes the index
  Cores cores(threads - 1);
  carya::loader::BandCrew crew(cores);
  crew.set_threads(static_cast<std::uint32_t>(threads));
  several.set_bands(&crew);
  TwoCores two;
  counted.set_bands(&two);
  const std::vector<std::byte> wanted = sample.out;
  for (Scratch* warm : {&several, &counted}) {
    sample.run(*warm);
    CHECK(sample.out == wanted);
  }
  carya::bench::Rounds rounds;
  std::int64_t round = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (int turn = 0; turn < 2; ++turn) {
      const bool alone = (turn + round) % 2 == 0;
      const std::int64_t start = carya::monotonic_ns(), start_cpu = process_cpu_ns();
      sample.run(alone ? one : several);
      const std::int64_t took = carya::monotonic_ns() - start;
      rounds.add(alone ? "one_ms" : "ms", 1e-6 * static_cast<double>(took));
      rounds.add(alone ? "one_cpu_ms" : "cpu_ms", 1e-6 * static_cast<double>(process_cpu_ns() - start_cpu));
      if (!alone) state.SetIterationTime(1e-9 * static_cast<double>(took));
    }
    const std::int64_t start = carya::thread_cpu_ns(), in_parts = two.in_parts_ns(), both = two.both_ns();
    sample.run(counted);
    const std::int64_t outside = carya::thread_cpu_ns() - start - (two.in_parts_ns() - in_parts);
    rounds.add("two_cores_ms", 1e-6 * static_cast<double>(outside + two.both_ns() - both));
    ++round;
  }
  rounds.report(state);
  rounds.compare(state, "one_ms", "ms");
  rounds.compare(state, "cpu_ms", "one_cpu_ms");
  rounds.compare(state, "one_cpu_ms", "two_cores_ms");
  state.counters["megabytes"] = 1e-6 * static_cast<double>(sample.bytes.size());
  state.SetItemsProcessed(state.iterations());
}

}  // namespace

int main(int argc, char** argv) {
  carya::bench::Program program(argc, argv);
  const auto threads = static_cast<int>(program.count("--threads", 2));
  const auto megapixels = static_cast<std::int64_t>(program.count("--megapixels", program.smoke() ? 4 : 50));
  const std::pair<const char*, Kind> cases[] = {{"plain", Kind::kPlain},
                                                {"rows", Kind::kRows},
                                                {"every 8 MCUs", Kind::kEvery8},
                                                {"restarts", Kind::kRestarts}};
  for (const auto& [name, kind] : cases)
    benchmark::RegisterBenchmark(name, large, kind, megapixels, threads)
        ->Iterations(program.smoke() ? 1 : 7)
        ->UseManualTime();
  return program.run();
}
