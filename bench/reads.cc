// Question: what does reading through io/ cost against the bare system calls and the bare disk?
// Read as a loader reads: through the page cache, with the engine's own depth. Ceilings: warm, one
// open/read/close loop of one thread into the same memory, per CPU-second; cold (pages dropped before each
// round), fio with one file open at a time and ranges of one large file, same sizes, same depth.
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
  int rounds = 7;
  bool smoke = false;
  bool warm_only = false;
};

struct Rate {
  double per_s = 0, per_cpu_s = 0;
};

/// CPU seconds of all threads of this process, those of the kernel's io-wq among them.
double cpu_now_s() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Rate measure(std::uint64_t count, const std::function<void()>& work) {
  const double cpu = cpu_now_s();
  const std::int64_t wall = monotonic_ns();
  work();
  const double n = static_cast<double>(count);
  return {n / (1e-9 * static_cast<double>(monotonic_ns() - wall)), n / std::max(cpu_now_s() - cpu, 1e-9)};
}

Rate median(std::vector<Rate> rates) {
  const auto middle = [&](double Rate::* field) {
    std::ranges::sort(rates, {}, field);
    return rates[rates.size() / 2].*field;
  };
  return {middle(&Rate::per_s), middle(&Rate::per_cpu_s)};
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

struct Warm {
  Rate bare, uring, pread;
};

Warm warm(const Setup& setup, const Corpus& corpus, bool ranges) {
  const int root = ::open(setup.dir.c_str(), O_RDONLY | O_DIRECTORY);
  const int container = ::openat(root, "container", O_RDONLY);
  EngineLoop uring(setup, corpus, {}, ranges);
  EngineLoop pread(setup, corpus, {.kind = ReadEngineOptions::Kind::kPread}, ranges);
  std::vector<Rate> bare_rates, uring_rates, pread_rates;
  const auto bare = [&] { ranges ? bare_ranges(setup, corpus, container) : bare_files(setup, corpus, root); };
  bare();  // into the page cache
  for (int round = 0; round < setup.rounds; ++round) {
    bare_rates.push_back(measure(setup.files, bare));
    uring_rates.push_back(measure(setup.files, [&] { uring.run(setup.files); }));
    pread_rates.push_back(measure(setup.files, [&] { pread.run(setup.files); }));
  }
  ::close(container);
  ::close(root);
  return {median(bare_rates), median(uring_rates), median(pread_rates)};
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

/// Reads per second, the sides in turns.
struct Cold {
  double uring = 0, pread = 0, fio = 0;
};

Cold cold(const Setup& setup, const Corpus& corpus, bool ranges) {
  EngineLoop uring(setup, corpus, {}, ranges);
  EngineLoop pread(setup, corpus, {.kind = ReadEngineOptions::Kind::kPread}, ranges);
  std::vector<Rate> uring_rates, pread_rates;
  std::vector<double> fio;
  for (int round = 0; round < (setup.smoke ? 1 : 3); ++round) {
    forget_pages(setup, corpus);
    uring_rates.push_back(measure(setup.files, [&] { uring.run(setup.files); }));
    forget_pages(setup, corpus);
    pread_rates.push_back(measure(setup.files, [&] { pread.run(setup.files); }));
    if (!setup.smoke) fio.push_back(fio_rate(setup, ranges));
  }
  std::ranges::sort(fio);
  return {median(uring_rates).per_s, median(pread_rates).per_s, fio.empty() ? 0 : fio[fio.size() / 2]};
}

}  // namespace

int main(int argc, char** argv) {
  Setup setup;
  setup.dir = "bench_reads_data";
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--smoke") setup.smoke = true;
    if (arg == "--warm-only") setup.warm_only = true;
    if (arg == "--dir" && i + 1 < argc) setup.dir = argv[++i];
    if (arg == "--files" && i + 1 < argc) setup.files = std::strtoull(argv[++i], nullptr, 10);
    if (arg == "--depth" && i + 1 < argc)
      setup.depth = static_cast<std::uint32_t>(std::strtoul(argv[++i], nullptr, 10));
  }
  if (setup.smoke) {
    setup.files = 50;
    setup.rounds = 3;
    setup.dir += "_smoke";
  }
  const Corpus corpus = make_corpus(setup);
  const Warm files = warm(setup, corpus, false);
  const Warm ranges = warm(setup, corpus, true);
  const Cold cold_files = setup.warm_only ? Cold{} : cold(setup, corpus, false);
  const Cold cold_ranges = setup.warm_only ? Cold{} : cold(setup, corpus, true);

  const auto ratio = [](double a, double b) { return b > 0 ? a / b : 0; };
  std::printf("%-14s %12s %12s %12s %8s\n", "reads of 110KB", "io_uring", "pread pool", "ceiling", "ratio");
  const auto row = [&](const char* name, double uring, double pread, double ceiling) {
    std::printf("%-14s %12.0f %12.0f %12.0f %8.3f\n", name, uring, pread, ceiling, ratio(uring, ceiling));
  };
  row("warm files/cpu", files.uring.per_cpu_s, files.pread.per_cpu_s, files.bare.per_cpu_s);
  row("warm range/cpu", ranges.uring.per_cpu_s, ranges.pread.per_cpu_s, ranges.bare.per_cpu_s);
  row("cold files/s", cold_files.uring, cold_files.pread, cold_files.fio);
  row("cold ranges/s", cold_ranges.uring, cold_ranges.pread, cold_ranges.fio);
  std::printf(
      "{\"bench\": \"reads\", \"files\": %llu, \"bytes\": %llu, \"depth\": %u, \"warm_files_ratio\": %.4f, "
      "\"warm_ranges_ratio\": %.4f, \"cold_files_per_s\": %.0f, \"cold_files_ratio\": %.4f, "
      "\"cold_ranges_per_s\": %.0f, \"cold_ranges_ratio\": %.4f}\n",
      static_cast<unsigned long long>(setup.files), static_cast<unsigned long long>(setup.file_bytes),
      setup.depth, ratio(files.uring.per_cpu_s, files.bare.per_cpu_s),
      ratio(ranges.uring.per_cpu_s, ranges.bare.per_cpu_s), cold_files.uring,
      ratio(cold_files.uring, cold_files.fio), cold_ranges.uring, ratio(cold_ranges.uring, cold_ranges.fio));
  return 0;
}
