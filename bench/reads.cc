// Question: what does reading through io/ cost against the bare system calls and the bare disk?
// Read as a loader reads: through the page cache, with the engine's own depth. Ceilings: warm, one
// open/read/close loop of one thread into the same memory, per CPU-second; cold (pages dropped before each
// round), fio with one file open at a time and ranges of one large file, same sizes, same depth. Counters are
// ns per read: CPU time of all threads (warm), time on the wall (cold). Own flags: --dir, --files, --depth.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "bench/pairs.h"
#include "bench/program.h"
#include "io/read/read_engine.h"

namespace {

using namespace carya;
using io::ReadCompletion;
using io::ReadEngine;
using io::ReadEngineOptions;
using io::ReadRequest;

struct Setup {
  std::string dir;
  std::uint64_t files = 2000;
  std::uint64_t file_bytes = 110'000;  // a typical photo of ImageNet
  std::uint32_t depth = ReadEngineOptions{}.depth;
};

/// CPU seconds of all threads of this process, those of the kernel's io-wq among them.
double cpu_now_s() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double cpu_ns_per_read(std::uint64_t count, const std::function<void()>& work) {
  const double start = cpu_now_s();
  work();
  return (cpu_now_s() - start) * 1e9 / static_cast<double>(count);
}

double ns_per_read(std::uint64_t count, const std::function<void()>& work) {
  const std::int64_t start = monotonic_ns();
  work();
  return static_cast<double>(monotonic_ns() - start) / static_cast<double>(count);
}

struct FreeAligned {
  void operator()(std::byte* p) const { std::free(p); }
};

/// Files to read, one tar-like container of the same bytes, and the memory that both loops read into.
struct Corpus {
  std::vector<std::string> names;
  std::vector<std::uint64_t> order;
  std::vector<std::unique_ptr<std::byte, FreeAligned>> dests;  // one per read in flight
  std::uint64_t stride = 0;                                    // between payloads in the container
};

bool write_file(const std::string& path, std::uint64_t bytes, std::mt19937_64& draw) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) == bytes) return true;
  std::vector<std::uint64_t> content(1 << 17);
  for (auto& word : content) word = draw();
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  for (std::uint64_t left = bytes; left > 0;) {
    const std::uint64_t step = std::min<std::uint64_t>(left, content.size() * 8);
    if (std::fwrite(content.data(), 1, step, file) != step) break;
    left -= step;
  }
  const bool good = ::fsync(::fileno(file)) == 0;
  return std::fclose(file) == 0 && good;
}

Corpus make_corpus(const Setup& setup) {
  Corpus corpus;
  std::mt19937_64 draw(1);
  std::filesystem::create_directories(setup.dir + "/files");
  for (std::uint64_t i = 0; i < setup.files; ++i) {
    corpus.names.push_back(std::string("files/") + std::to_string(i));
    corpus.order.push_back(i);
    if (!write_file(setup.dir + "/" + corpus.names.back(), setup.file_bytes, draw)) std::exit(1);
  }
  corpus.stride = align_up<std::uint64_t>(setup.file_bytes, 512) + 512;  // a header, and payload in blocks
  if (!write_file(setup.dir + "/container", corpus.stride * setup.files, draw)) std::exit(1);
  std::ranges::shuffle(corpus.order, draw);
  const std::size_t room = align_up<std::uint64_t>(setup.file_bytes + 1, 4096);
  for (std::uint32_t i = 0; i < setup.depth; ++i) {
    corpus.dests.emplace_back(static_cast<std::byte*>(std::aligned_alloc(4096, room)));
    std::memset(corpus.dests.back().get(), 1, room);
  }
  return corpus;
}

/// Reads `count` records in the corpus' order (again from its start when it ends), `depth` in flight.
class EngineLoop {
 public:
  EngineLoop(const Setup& setup, const Corpus& corpus, ReadEngineOptions options, bool ranges)
      : setup_(setup), corpus_(corpus), ranges_(ranges) {
    options.depth = setup.depth;
    auto created = ReadEngine::create(options);
    if (!created) std::exit(1);
    engine_ = std::move(*created);
    root_ = *engine_->add_root(setup.dir);
    if (ranges) file_ = *engine_->add_file(root_, "container");
  }

  std::string_view name() const { return engine_->name(); }

  void run(std::uint64_t count) {
    done_.resize(setup_.depth);
    free_.clear();
    for (std::uint32_t i = 0; i < setup_.depth; ++i) free_.push_back(i);
    std::uint64_t submitted = 0;
    std::uint64_t finished = 0;
    while (finished < count) {
      batch_.clear();
      while (submitted < count && !free_.empty()) {
        batch_.push_back(request(corpus_.order[submitted++ % corpus_.order.size()]));
      }
      engine_->submit(batch_);
      const std::size_t ended = engine_->poll(done_, 1000);
      for (std::size_t i = 0; i < ended; ++i) {
        if (!done_[i].ok) std::exit(1);
        free_.push_back(static_cast<std::uint32_t>(done_[i].token));
      }
      finished += ended;
    }
  }

 private:
  ReadRequest request(std::uint64_t record) {
    const std::uint32_t place = free_.back();
    free_.pop_back();
    ReadRequest request{.token = place, .length = setup_.file_bytes, .dest = corpus_.dests[place].get()};
    if (ranges_) {
      request.file = file_;
      request.offset = record * corpus_.stride + 512;
    } else {
      request.root = root_;
      request.path = corpus_.names[record].c_str();
    }
    return request;
  }

  const Setup& setup_;
  const Corpus& corpus_;
  const bool ranges_;
  std::unique_ptr<ReadEngine> engine_;
  int root_ = -1, file_ = -1;
  std::vector<std::uint32_t> free_;
  std::vector<ReadRequest> batch_;
  std::vector<ReadCompletion> done_;
};

/// The bare loop: open, read one byte more than expected, close; destinations in turn, as the engine has
/// them.
void bare_files(const Setup& setup, const Corpus& corpus, int root) {
  std::size_t place = 0;
  for (const std::uint64_t record : corpus.order) {
    const int fd = ::openat(root, corpus.names[record].c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t got = ::read(fd, corpus.dests[place].get(), setup.file_bytes + 1);
    ::close(fd);
    if (got != static_cast<ssize_t>(setup.file_bytes)) std::exit(1);
    place = (place + 1) % corpus.dests.size();
  }
}

void bare_ranges(const Setup& setup, const Corpus& corpus, int fd) {
  std::size_t place = 0;
  for (const std::uint64_t record : corpus.order) {
    const auto offset = static_cast<off_t>(record * corpus.stride + 512);
    const ssize_t got = ::pread(fd, corpus.dests[place].get(), setup.file_bytes, offset);
    if (got != static_cast<ssize_t>(setup.file_bytes)) std::exit(1);
    place = (place + 1) % corpus.dests.size();
  }
}

void count_reads(benchmark::State& state, const Setup& setup) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(setup.files));
  state.SetBytesProcessed(state.items_processed() * static_cast<std::int64_t>(setup.file_bytes));
}

void warm(benchmark::State& state, const Setup& setup, const Corpus& corpus, bool ranges) {
  const UniqueFd root(::open(setup.dir.c_str(), O_RDONLY | O_DIRECTORY));
  const UniqueFd container(::openat(root.get(), "container", O_RDONLY));
  EngineLoop uring(setup, corpus, {}, ranges);
  EngineLoop pread(setup, corpus, {.kind = ReadEngineOptions::Kind::kPread}, ranges);
  const auto bare = [&] {
    ranges ? bare_ranges(setup, corpus, container.get()) : bare_files(setup, corpus, root.get());
  };
  bare();  // into the page cache
  const auto cost = [&](const std::function<void()>& work) { return cpu_ns_per_read(setup.files, work); };
  bench::run_in_turns(state, {{"bare", [&] { return cost(bare); }},
                              {"pread", [&] { return cost([&] { pread.run(setup.files); }); }},
                              {"uring", [&] { return cost([&] { uring.run(setup.files); }); }}});
  count_reads(state, setup);
}

/// Out of the page cache, so that the next read of them comes from the disk.
void forget_pages(const Setup& setup, const Corpus& corpus) {
  const auto forget = [&](const std::string& name) {
    const int fd = ::open((setup.dir + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) std::exit(1);
    ::close(fd);
  };
  for (const std::string& name : corpus.names) forget(name);
  forget("container");
}

/// Reads per second of fio on the same bytes, through the page cache as a loader reads them, each once and
/// none of them cached; 0 without fio.
double fio_rate(const Setup& setup, bool ranges) {
  const std::string whole = std::to_string(setup.file_bytes);
  std::string command =
      "fio --name=r --ioengine=io_uring --direct=0 --invalidate=1 --readonly --output-format=terse"
      " --bs=" +
      whole + " --iodepth=" + std::to_string(setup.depth);
  if (ranges) {
    command += " --rw=randread --norandommap --blockalign=512 --filename=" + setup.dir +
               "/container --number_ios=" + std::to_string(setup.files);
  } else {
    // One file open at a time; whole files: each is one block when the block is as long as the file.
    command +=
        " --rw=read --openfiles=1 --file_service_type=random --nrfiles=" + std::to_string(setup.files) +
        " --filesize=" + whole + " --directory=" + setup.dir + " --filename_format='files/$filenum'";
  }
  std::FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return 0;
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), pipe));
  ::pclose(pipe);
  // Terse version 3: field 8 (from 1) is the reads per second.
  std::size_t at = 0;
  for (int field = 1; field < 8 && at != std::string::npos; ++field) at = text.find(';', at + (field > 1));
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + 1);
}

void cold(benchmark::State& state, const Setup& setup, const Corpus& corpus, bool ranges) {
  EngineLoop uring(setup, corpus, {}, ranges);
  EngineLoop pread(setup, corpus, {.kind = ReadEngineOptions::Kind::kPread}, ranges);
  const auto cost = [&](EngineLoop& loop) {
    forget_pages(setup, corpus);
    return ns_per_read(setup.files, [&] { loop.run(setup.files); });
  };
  std::vector<bench::Side> sides;
  if (fio_rate(setup, ranges) > 0)  // it is there
    sides.push_back({"fio", [&] { return 1e9 / fio_rate(setup, ranges); }});
  sides.push_back({"pread", [&] { return cost(pread); }});
  sides.push_back({"uring", [&] { return cost(uring); }});
  bench::run_in_turns(state, sides);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(setup.files));
}

}  // namespace

int main(int argc, char** argv) {
  bench::Program program(argc, argv);
  Setup setup;
  setup.dir = program.text("--dir", "bench_reads_data");
  if (program.smoke()) setup.dir += "_smoke";
  setup.files = program.count("--files", program.smoke() ? 50 : setup.files);
  setup.depth = static_cast<std::uint32_t>(program.count("--depth", setup.depth));
  const Corpus corpus = make_corpus(setup);
  const auto add = [&](const char* name, auto* run, bool ranges, std::int64_t rounds) {
    benchmark::RegisterBenchmark(
        name, [&setup, &corpus, run, ranges](benchmark::State& state) { run(state, setup, corpus, ranges); })
        ->Iterations(rounds)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  };
  add("warm files", warm, false, program.smoke() ? 3 : 7);
  add("warm ranges", warm, true, program.smoke() ? 3 : 7);
  add("cold files", cold, false, program.smoke() ? 1 : 3);
  add("cold ranges", cold, true, program.smoke() ? 1 : 3);
  return program.run();
}
