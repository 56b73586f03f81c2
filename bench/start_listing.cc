// Question: how long until a folder of ImageNet's size (1,281,167 files in 1,000 classes) can be read from?
// Bars: first listing <= 15 s with warm inodes, reopening <= 0.3 s. The ceiling of the first is one stat per
// file.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "io/manifest/manifest.h"

namespace {

using namespace carya;

double seconds_since(std::int64_t start) {
  return 1e-9 * static_cast<double>(monotonic_ns() - start);
}

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

struct Listing {
  double seconds = 0;
  bool from_cache = false;
  std::uint64_t count = 0;
};

Listing list(const std::string& dir, const io::ListingOptions& options) {
  io::ListingReport report;
  const std::int64_t start = monotonic_ns();
  const auto manifest = io::list_image_folder(dir + "/train", options, &report);
  const double seconds = seconds_since(start);
  if (!manifest) {
    std::fprintf(stderr, "%s\n", manifest.error().message.c_str());
    std::exit(1);
  }
  return {seconds, report.from_cache, (*manifest)->count()};
}

}  // namespace

int main(int argc, char** argv) {
  std::string dir = "bench_start_data";
  std::uint64_t files = 1'281'167, classes = 1000;
  bool smoke = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--smoke") smoke = true;
    if (arg == "--dir" && i + 1 < argc) dir = argv[++i];
  }
  if (smoke) {
    files = 1000;
    classes = 10;
    dir += "_smoke";
  }
  std::filesystem::create_directories(dir);
  if (!make_files(dir, files, classes)) {
    std::fprintf(stderr, "cannot make the files in %s\n", dir.c_str());
    return 1;
  }
  const io::ListingOptions cached{.cache_dir = dir + "/cache"};
  list(dir, {});  // inodes into memory
  const Listing first = list(dir, {});
  list(dir, cached);
  std::vector<double> reopen;
  bool all_cached = true;
  for (int i = 0; i < 7; ++i) {
    const Listing again = list(dir, cached);
    reopen.push_back(again.seconds);
    all_cached = all_cached && again.from_cache;
  }
  std::ranges::sort(reopen);
  const Listing verify = list(dir, {.cache_dir = cached.cache_dir, .verify = true});
  std::uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(cached.cache_dir)) bytes += file.file_size();

  std::printf("%llu files in %llu classes\n", static_cast<unsigned long long>(first.count),
              static_cast<unsigned long long>(classes));
  std::printf(
      "first listing (warm)  %8.3f s  (bar 15)\nreopen (median of 7)  %8.3f s  (bar 0.3)%s\nverify every "
      "file     "
      "%8.3f s\nmanifest              %8.1f MB\n",
      first.seconds, reopen[3], all_cached ? "" : "  NOT FROM CACHE", verify.seconds,
      1e-6 * static_cast<double>(bytes));
  std::printf(
      "{\"bench\": \"start_listing\", \"files\": %llu, \"first_s\": %.4f, \"reopen_s\": %.4f, \"verify_s\": "
      "%.4f, "
      "\"from_cache\": %s, \"manifest_bytes\": %llu}\n",
      static_cast<unsigned long long>(first.count), first.seconds, reopen[3], verify.seconds,
      all_cached ? "true" : "false", static_cast<unsigned long long>(bytes));
  return all_cached ? 0 : 1;
}
