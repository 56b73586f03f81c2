// Question: how long until a folder of ImageNet's size (1,281,167 files in 1,000 classes) can be read from?
// Bars: first listing <= 15 s with warm inodes, reopening <= 0.3 s. The ceiling of the first is one stat per
// file. Own flag: --dir DIR.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "bench/program.h"
#include "io/manifest/manifest.h"

namespace {

using namespace carya;

/// Empty files as ImageNet names them, made once.
bool make_files(const std::string& dir, std::uint64_t files, std::uint64_t classes) {
  const std::string mark = dir + "/made";
  if (::access(mark.c_str(), F_OK) == 0) return true;
  for (std::uint64_t c = 0; c < classes; ++c) {
    char folder[32];
    std::snprintf(folder, sizeof folder, "n%08llu", static_cast<unsigned long long>(c * 7919 + 1440764));
    std::filesystem::create_directories(dir + "/train/" + folder);
    const int at = ::open((dir + "/train/" + folder).c_str(), O_RDONLY | O_DIRECTORY);
    for (std::uint64_t i = c; i < files; i += classes) {
      const std::string name = std::string(folder) + "_" + std::to_string(i) + ".JPEG";
      const int file = ::openat(at, name.c_str(), O_WRONLY | O_CREAT, 0644);
      if (file < 0) return false;
      ::close(file);
    }
    ::close(at);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // a folder that changed just now is not kept
  return ::creat(mark.c_str(), 0644) >= 0;
}

struct Folder {
  std::string dir = "bench_start_data";
  std::uint64_t files = 1'281'167, classes = 1000;
  io::ListingOptions cached() const { return {.cache_dir = dir + "/cache"}; }
};

/// Whether the listing came from the cache.
bool list(const Folder& folder, const io::ListingOptions& options) {
  io::ListingReport report;
  const auto manifest = bench::must(io::list_image_folder(folder.dir + "/train", options, &report));
  CHECK(manifest->count() == folder.files);
  return report.from_cache;
}

void first(benchmark::State& state, const Folder& folder) {
  list(folder, {});  // inodes into memory
  for ([[maybe_unused]] auto _ : state) list(folder, {});
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(folder.files));
}

/// `verify`: each file is looked at.
void reopen(benchmark::State& state, const Folder& folder, bool verify) {
  io::ListingOptions options = folder.cached();
  list(folder, options);
  options.verify = verify;
  for ([[maybe_unused]] auto _ : state)
    if (!list(folder, options) && !verify) state.SkipWithError("the listing did not come from the cache");
  std::uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(options.cache_dir)) bytes += file.file_size();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(folder.files));
  state.counters["manifest_bytes"] = static_cast<double>(bytes);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Program program(argc, argv);
  Folder folder;
  folder.dir = program.text("--dir", folder.dir);
  if (program.smoke()) folder = {.dir = folder.dir + "_smoke", .files = 1000, .classes = 10};
  std::filesystem::create_directories(folder.dir);
  if (!make_files(folder.dir, folder.files, folder.classes)) {
    std::fprintf(stderr, "cannot make the files in %s\n", folder.dir.c_str());
    return 1;
  }
  const auto add = [](auto* made, std::int64_t iterations) {
    made->Iterations(iterations)->Unit(benchmark::kMillisecond)->UseRealTime();
  };
  add(benchmark::RegisterBenchmark("first listing", first, folder), 1);
  add(benchmark::RegisterBenchmark("reopen", reopen, folder, false), 7);
  add(benchmark::RegisterBenchmark("verify every file", reopen, folder, true), 1);
  return program.run();
}
