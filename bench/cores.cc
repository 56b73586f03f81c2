// Question: how many cores can one engine keep busy? Compute is replaced by a wait of a known length, so that two
// cores stand for up to 256; reads, locks, wake-ups and publishing are the product's (bench/emulated_cores.h).
// Ceiling: threads / wait. Beside it stands what the emulation alone costs: the same threads that only wait. A row
// says something about the loader only while `cpu` (cores of this machine that the program used) stays below 1.6 of
// two, and `others` (what else ran on the machine) leaves room for it; a row that could not have them says nothing.
//
// Own flags: --dir, --seconds; and for a row of one's own --source (photos, photo_tars, records, record_files),
// --threads, --wait-us, --batch, --streams, --delay-ms, --io (auto, uring, pread).
#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "bench/emulated_cores.h"
#include "bench/program.h"
#include "loader/job/job.h"
#include "loader/plan/profile_file.h"
#include "tests/io/tar_maker.h"

namespace {

using namespace carya;
using namespace carya::loader;
namespace fs = std::filesystem;
using Kind = io::ReadEngineOptions::Kind;

constexpr std::uint64_t kPhotoBytes = 110'000, kRecordBytes = 1'000;

struct Row {
  std::string source;
  std::uint32_t threads = 2;
  std::int64_t wait_us = 400;
  std::uint32_t batch = 128;
  std::uint32_t streams = 1;
  double delay_ms = 0;
  Kind io = Kind::kAuto;

  std::string name() const {
    std::string text = source + "/" + std::to_string(threads) + "x" + std::to_string(wait_us) + "us/batch" +
                       std::to_string(batch);
    if (streams > 1) text += "/streams" + std::to_string(streams);
    if (delay_ms > 0) text += "/delay" + std::to_string(static_cast<int>(delay_ms * 1000)) + "us";
    if (io == Kind::kPread) text += "/pread";
    return text;
  }
};

/// Files and tars whose bytes are nothing: only their sizes count.
class Corpus {
 public:
  Corpus(std::string dir, bool small)
      : dir_(std::move(dir)), photos_(small ? 50 : 1000), records_(small ? 500 : 20'000) {}

  /// The source of a pipeline; makes what is not there yet.
  std::string source(const std::string& name) {
    if (name == "photos") return files(name, photos_, kPhotoBytes);
    if (name == "record_files") return files(name, records_, kRecordBytes);
    if (name == "photo_tars") return tars(name, photos_, kPhotoBytes);
    if (name == "records") return tars(name, records_, kRecordBytes);
    std::fprintf(stderr, "bench: --source: got %s; give photos, photo_tars, records, record_files\n",
                 name.c_str());
    std::exit(2);
  }

 private:
  static constexpr int kTars = 10;

  std::string files(const std::string& name, int count, std::uint64_t bytes) const {
    const fs::path folder = fs::path(dir_) / (name + "-" + std::to_string(count));
    if (!fs::exists(folder / "done")) {
      fs::create_directories(folder / "a");
      const std::string content(bytes, 'x');
      for (int i = 0; i < count; ++i)
        std::ofstream(folder / "a" / (std::to_string(i) + ".jpg"), std::ios::binary) << content;
      std::ofstream(folder / "done") << "";
    }
    return R"({"type":"image_folder","path":")" + folder.string() + R"("})";
  }

  std::string tars(const std::string& name, int count, std::uint64_t bytes) const {
    const fs::path folder = fs::path(dir_) / (name + "-" + std::to_string(count));
    fs::create_directories(folder);
    std::string list;
    for (int t = 0; t < kTars; ++t) {
      const fs::path path = folder / (std::to_string(t) + ".tar");
      list += (t > 0 ? ",\"" : "\"") + path.string() + "\"";
      if (fs::exists(path)) continue;
      io::TarMaker tar;
      for (int i = 0; i < count / kTars; ++i) {
        tar.file(std::to_string(i) + ".jpg", std::string(bytes, 'x'));
        tar.file(std::to_string(i) + ".cls", "1");
      }
      std::ofstream(path, std::ios::binary) << tar.finish();
    }
    return R"({"type":"webdataset","tars":[)" + list + R"(],"fields":{"image":["jpg"]},"label":["cls"]})";
  }

  const std::string dir_;
  const int photos_, records_;
};

/// CPU and wake-ups of this process so far, and the CPU of the whole machine.
struct Usage {
  double cpu_s = 0, reader_s = 0, machine_s = 0;
  std::uint64_t switches = 0;

  static Usage now() {
    Usage usage;
    rusage all{};
    getrusage(RUSAGE_SELF, &all);
    usage.switches = static_cast<std::uint64_t>(all.ru_nvcsw);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    usage.cpu_s = seconds(all.ru_utime) + seconds(all.ru_stime);
    for (const auto& task : fs::directory_iterator("/proc/self/task")) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
      double ns = 0;
      if (name == "carya-read" && std::ifstream(task.path() / "schedstat") >> ns) usage.reader_s += 1e-9 * ns;
    }
    std::ifstream stat("/proc/stat");
    std::string word;
    stat >> word;
    double ticks = 0;
    for (int field = 0; field < 8 && stat >> ticks; ++field)
      if (field != 3 && field != 4) usage.machine_s += ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    return usage;
  }
};

/// What the same threads cost that only wait, in microseconds of CPU time per row.
double bare_us(const Row& row, std::uint64_t rows_in_chunk, double seconds) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < row.threads; ++t)
    threads.emplace_back([&] {
      while (!done.load(std::memory_order_relaxed)) bench::emulate_rows(rows_in_chunk);
    });
  usleep(100'000);
  const auto counted = bench::emulation_counts();
  const Usage start = Usage::now();
  usleep(static_cast<useconds_t>(seconds * 1e6));
  const Usage end = Usage::now();
  const auto rows = static_cast<double>(bench::emulation_counts().rows - counted.rows);
  done = true;
  for (std::thread& thread : threads) thread.join();
  return (end.cpu_s - start.cpu_s) * 1e6 / std::max(rows, 1.0);
}

/// So that a chunk has as many rows as a stream would choose that knows what a sample takes.
void keep_cost(const transforms::Pipeline& pipeline, const std::string& cache, std::int64_t wait_us) {
  PlanProfile profile;
  profile.orders.push_back({.order = {0, 1}, .measured_at_s = unix_s()});
  for (std::uint32_t op = 0; op < 2; ++op)
    profile.orders[0].stages.push_back({.name = "a wait",
                                        .samples = 3200,
                                        .timed_samples = 1000,
                                        .cpu_ns = static_cast<std::uint64_t>(1000 * wait_us * 1000 / 2),
                                        .bytes_in = 100,
                                        .bytes_out = 100,
                                        .ops = {op}});
  const auto machine = ProfileMachine::here();
  if (!store_profile(profile_path(cache, pipeline, machine), profile, machine)) std::exit(1);
}

std::vector<std::shared_ptr<Job>> begin(Corpus& corpus, const Row& row, const std::string& cache) {
  const std::string json =
      R"({"version":1,"source":)" + corpus.source(row.source) +
      R"(,"views":[],"shuffle":{"seed":1},"ops":[{"op":"decode_image"},{"op":"random_resized_crop","size":[16,16]}],)"
      R"("batch":{"batch_size":)" +
      std::to_string(row.batch) + R"(,"global_size":null,"drop_last":true,"pad_last":false}})";
  const auto pipeline = bench::must(transforms::Pipeline::parse(json));
  const auto dataset = bench::must(Dataset::open(*pipeline, {}));
  keep_cost(*pipeline, cache, row.wait_us);
  std::vector<std::shared_ptr<Job>> jobs;
  for (std::uint32_t i = 0; i < row.streams; ++i)
    jobs.push_back(bench::must(Job::create(pipeline, dataset,
                                           {.threads = row.threads,
                                            .seed = i,
                                            .io_engine = row.io,
                                            .decode_index = {.wanted = false},
                                            .cache_dir = cache})));
  return jobs;
}

/// One reader for each stream, which takes what there is.
class Readers {
 public:
  explicit Readers(const std::vector<std::shared_ptr<Job>>& jobs) : taken_(jobs.size()) {
    for (std::size_t i = 0; i < jobs.size(); ++i)
      threads_.emplace_back([this, i, job = jobs[i]] {
        while (!done_) taken_[i] += bench::must(job->next(60'000)).rows;
      });
  }
  ~Readers() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  std::vector<double> taken() const { return {taken_.begin(), taken_.end()}; }

 private:
  std::vector<std::atomic<std::uint64_t>> taken_;
  std::atomic<bool> done_{false};
  std::vector<std::thread> threads_;
};

void measure(benchmark::State& state, Corpus& corpus, const Row& row, double seconds) {
  bench::set_compute_ns(row.wait_us * 1000);
  const std::string cache =
      (fs::temp_directory_path() / ("carya-cores-" + std::to_string(getpid()))).string();
  for ([[maybe_unused]] auto _ : state) {
    bench::set_storage_delay_ns(static_cast<std::int64_t>(row.delay_ms * 1e6));
    const auto jobs = begin(corpus, row, cache);
    double wall_s = 0, taken = 0, least = 1e18, most = 0;
    Usage start, end;
    bench::EmulationCounts before, after;
    SchedulerStats reads_before, reads;
    std::uint64_t chunk_rows = 1;
    {
      const Readers readers(jobs);
      usleep(static_cast<useconds_t>(seconds * 0.8e6));  // into the page cache, and until it is even
      reads_before = jobs[0]->stats().scheduler;
      const auto first = readers.taken();
      start = Usage::now();
      before = bench::emulation_counts();
      const std::int64_t from = monotonic_ns();
      usleep(static_cast<useconds_t>(seconds * 1e6));
      after = bench::emulation_counts();
      wall_s = 1e-9 * static_cast<double>(monotonic_ns() - from);
      end = Usage::now();
      const auto last = readers.taken();
      for (std::size_t i = 0; i < last.size(); ++i) {
        taken += last[i] - first[i];
        least = std::min(least, last[i] - first[i]);
        most = std::max(most, last[i] - first[i]);
      }
      reads = jobs[0]->stats().scheduler;
      chunk_rows = reads.flow.chunk_rows;
    }
    bench::set_storage_delay_ns(0);
    for (const auto& job : jobs) job->close();
    const auto rows = static_cast<double>(after.rows - before.rows);
    const double chunks = std::max(static_cast<double>(after.chunks - before.chunks), 1.0);
    const double cores_s = wall_s * row.threads;
    const double ideal = row.threads * 1e6 / static_cast<double>(row.wait_us);
    const double bare = bare_us(row, chunk_rows, seconds / 3);
    const double read_s = 1e-9 * static_cast<double>(reads.read_latency_ns - reads_before.read_latency_ns) /
                          std::max(static_cast<double>(reads.reads - reads_before.reads), 1.0);
    const double own_share = static_cast<double>(reads.cached_reads - reads_before.cached_reads) /
                             std::max(static_cast<double>(reads.reads - reads_before.reads), 1.0);
    const auto per_row = [&](double all) { return all / std::max(rows, 1.0); };
    state.SetIterationTime(wall_s);
    auto& told = state.counters;
    told["ideal_k"] = ideal / 1e3;
    told["of_ideal"] = rows / wall_s / ideal;
    // Computing, and reading where these threads do: what is lacking to 1 is the loader's.
    told["busy"] =
        (1e-9 * static_cast<double>(after.computing_ns - before.computing_ns) + rows * own_share * read_s) /
        cores_s;
    told["own_reads"] = own_share;
    told["wait_us"] = per_row(1e-3 * static_cast<double>(after.computing_ns - before.computing_ns));
    told["chunk_rows"] = static_cast<double>(chunk_rows);
    told["lock_wait"] = 1e-9 * static_cast<double>(after.waiting_ns - before.waiting_ns) / cores_s;
    told["lock_held"] = 1e-9 * static_cast<double>(after.holding_ns - before.holding_ns) / wall_s;
    told["locks"] = static_cast<double>(after.locks - before.locks) / chunks;
    told["reader"] = (end.reader_s - start.reader_s) / wall_s;
    told["switches"] = static_cast<double>(end.switches - start.switches) / chunks;
    told["cpu_us"] = per_row((end.cpu_s - start.cpu_s) * 1e6);
    told["bare_us"] = bare;
    told["read_us"] = read_s * 1e6;
    told["cpu"] = (end.cpu_s - start.cpu_s) / wall_s;
    told["others"] = (end.machine_s - start.machine_s - end.cpu_s + start.cpu_s) / wall_s;
    if (row.streams > 1) told["spread"] = (most - least) / (taken / row.streams);
  }
  fs::remove_all(cache);
}

std::vector<Row> rows_of_table() {
  std::vector<Row> rows{{"photos", 2, 400},       {"photos", 16, 400},     {"photos", 64, 1600},
                        {"photos", 224, 5600},    {"photo_tars", 16, 400}, {"photo_tars", 224, 5600},
                        {"records", 2, 400},      {"records", 32, 400},    {"records", 224, 2000},
                        {"record_files", 32, 400}};
  rows.push_back({.source = "photos", .threads = 16, .wait_us = 400, .streams = 8});
  rows.push_back({.source = "photos", .threads = 16, .wait_us = 400, .streams = 64});
  for (const double delay_ms : {1.0, 10.0, 50.0})
    rows.push_back(
        {.source = "records", .threads = 8, .wait_us = 1000, .delay_ms = delay_ms, .io = Kind::kPread});
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Program program(argc, argv);
  const double seconds = program.number("--seconds", program.smoke() ? 0.05 : 3);
  const std::string own = program.text("--source");
  const std::string io = program.text("--io", "auto");
  const Row asked{.source = own,
                  .threads = static_cast<std::uint32_t>(program.count("--threads", 2)),
                  .wait_us = static_cast<std::int64_t>(program.count("--wait-us", 400)),
                  .batch = static_cast<std::uint32_t>(program.count("--batch", 128)),
                  .streams = static_cast<std::uint32_t>(program.count("--streams", 1)),
                  .delay_ms = program.number("--delay-ms", 0),
                  .io = io == "uring"   ? Kind::kUring
                        : io == "pread" ? Kind::kPread
                                        : Kind::kAuto};
  // In memory, where no other program can drive it out of the page cache.
  Corpus corpus(program.text("--dir", "/dev/shm/carya-bench-cores"), program.smoke());
  std::vector<Row> rows = rows_of_table();
  if (!own.empty()) rows = {asked};
  if (program.smoke()) rows = {{"photos", 4, 400, 32}, {"records", 4, 400, 32}};
  for (const Row& row : rows)
    benchmark::RegisterBenchmark(
        row.name().c_str(),
        [&corpus, row, seconds](benchmark::State& state) { measure(state, corpus, row, seconds); })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kSecond);
  return program.run();
}
