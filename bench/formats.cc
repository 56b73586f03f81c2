// Question: what does it cost to index a file of records, and to read its records against a tar of the same bytes?
// Ceilings: of the index, reading the file once into the same small memory (of records that are leapt over:
// nothing, so the figure stands alone); of the reads, the same engine on a tar's members. Bars: a plain index of
// small records <= 50 ns a record warm; reads >= 0.95 of the tar's. CPU time, warm. Own flags: --dir, --photos.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/unique_fd.h"
#include "bench/pairs.h"
#include "bench/program.h"
#include "io/formats/crc32c.h"
#include "io/formats/tfrecord.h"
#include "io/read/read_engine.h"
#include "io/sources/record_files.h"

namespace {

using namespace carya;

constexpr std::uint64_t kPhotoBytes = 110'000;  // a typical photo of ImageNet

std::string noise(std::size_t bytes) {
  static std::mt19937_64 draw(1);
  std::string text(bytes, '\0');
  for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
    const std::uint64_t word = draw();
    std::memcpy(text.data() + at, &word, 8);
  }
  return text;
}

std::string framed(const std::string& data) {
  const auto sum = [](std::string_view some) {
    return io::masked_crc(io::crc32c(std::as_bytes(std::span(some))));
  };
  const std::uint64_t bytes = data.size();
  std::string text(reinterpret_cast<const char*>(&bytes), 8);
  const std::uint32_t head = sum(text), tail = sum(data);
  text.append(reinterpret_cast<const char*>(&head), 4) += data;
  return text.append(reinterpret_cast<const char*>(&tail), 4);
}

std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}
std::string field(std::uint32_t number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
/// An Example as ImageNet's are: one picture, one label, and what is not asked for.
std::string photo_example(const std::string& photo, std::uint64_t label) {
  const auto entry = [](const char* key, const std::string& feature) {
    return field(1, field(1, key) + field(2, feature));
  };
  return field(1, entry("image/class/label", field(3, field(1, varint(label)))) +
                      entry("image/class/text", field(1, field(1, "a text that nobody asks for"))) +
                      entry("image/encoded", field(1, field(1, photo))) +
                      entry("image/format", field(1, field(1, "JPEG"))) +
                      entry("image/height", field(3, field(1, varint(375)))) +
                      entry("image/width", field(3, field(1, varint(500)))));
}

struct Data {
  std::string dir;
  std::uint64_t photos = 2000;
  std::string path(const std::string& name) const { return dir + "/" + name; }
};

/// A file of `count` records, made once.
template <typename Make>
std::string made(const Data& data, const std::string& name, std::uint64_t count, const Make& make) {
  const std::string path = data.path(name);
  if (std::filesystem::exists(path)) return path;
  std::filesystem::create_directories(data.dir);
  // In large writes: how a file was written decides the sizes of its pages' folios, and those what a read costs.
  std::vector<char> buffer(4 << 20);
  std::ofstream file;
  file.rdbuf()->pubsetbuf(buffer.data(), static_cast<std::streamsize>(buffer.size()));
  file.open(path + ".new", std::ios::binary);
  for (std::uint64_t i = 0; i < count; ++i) file << make(i);
  file.close();
  std::filesystem::rename(path + ".new", path);
  return path;
}

void index_file(benchmark::State& state, const std::string& path, std::uint64_t records,
                const io::RecordSpec& spec) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(fd);
  const std::uint64_t bytes = std::filesystem::file_size(path);
  const auto read = io::reads_of(fd.get(), path);
  const auto once = [&] {  // the whole file, a block at a time
    std::vector<std::byte> block(256 << 10);
    for (std::uint64_t at = 0; at < bytes; at += block.size())
      CHECK(read(at, std::span(block).first(std::min<std::uint64_t>(block.size(), bytes - at))));
  };
  const auto index = [&] {
    io::FileWindow window(bytes, read);
    const io::Progress none;
    io::ListingProgress progress(none);
    const auto made = io::index_tfrecord(path, window, spec, progress);
    CHECK(made && made->count() == records && made->faults().empty());
  };
  const auto list = [&] {
    const auto source = io::list_records({path}, spec, {.threads = 1});
    CHECK(source && (*source)->records()->count() == records);
  };
  once();
  const auto cost = [&](const auto& work) { return bench::cpu_ns_per_item(records, work); };
  bench::run_in_turns(state, {{"read", [&] { return cost(once); }},
                              {"index", [&] { return cost(index); }},
                              {"list", [&] { return cost(list); }}});
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(records));
}

struct FreeAligned {
  void operator()(std::byte* p) const { std::free(p); }
};

/// Reads ranges of one file in a drawn order, as many in flight as the engine takes.
class Ranges {
 public:
  Ranges(const Data& data, const std::string& name) {
    engine_ = bench::must(io::ReadEngine::create({}));
    file_ = bench::must(engine_->add_file(bench::must(engine_->add_root(data.dir)), name));
  }
  void add(std::uint64_t offset, std::uint64_t bytes) { ranges_.push_back({offset, bytes}); }
  void shuffle() { std::ranges::shuffle(ranges_, std::mt19937_64(7)); }

  double cpu_ns_per_read() {
    if (dests_.empty())
      for (std::uint32_t i = 0; i < engine_->room(); ++i) {
        const std::size_t room = align_up<std::size_t>(2 * kPhotoBytes, 4096);
        dests_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(4096, room)));
        std::memset(dests_.back().get(), 1, room);
      }
    timespec now;
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    const double start = static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
    std::vector<io::ReadCompletion> done(dests_.size());
    std::vector<std::uint64_t> free;
    for (std::uint64_t i = 0; i < dests_.size(); ++i) free.push_back(i);
    for (std::size_t sent = 0, finished = 0; finished < ranges_.size();) {
      std::vector<io::ReadRequest> batch;
      for (; sent < ranges_.size() && !free.empty(); ++sent, free.pop_back())
        batch.push_back({.token = free.back(),
                         .file = file_,
                         .offset = ranges_[sent].first,
                         .length = ranges_[sent].second,
                         .dest = dests_[free.back()].get()});
      engine_->submit(batch);
      const std::size_t ended = engine_->poll(done, 1000);
      for (std::size_t i = 0; i < ended; ++i) {
        CHECK(done[i].ok);
        free.push_back(done[i].token);
      }
      finished += ended;
    }
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec) - start) /
           static_cast<double>(ranges_.size());
  }

 private:
  std::unique_ptr<io::ReadEngine> engine_;
  int file_ = -1;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;
  std::vector<std::unique_ptr<std::byte, FreeAligned>> dests_;
};

const io::RecordSpec kPhoto{
    .fields = {{.name = "image", .key = "image/encoded"},
               {.kind = io::RecordField::Kind::kLabel, .name = "label", .key = "image/class/label"}}};
const io::RecordSpec kWhole{.fields = {{.name = "record", .key = std::nullopt}}};

io::RecordSpec unchecked(io::RecordSpec spec) {
  spec.check_data = false;
  return spec;
}

/// Out of the page cache and in again from end to end: how its pages came there decides the sizes of their
/// folios, and those what a read costs (a third more or less, measured on two files of the same bytes).
void read_anew(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(fd && ::fsync(fd.get()) == 0 && ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
  std::vector<char> block(1 << 20);
  while (::read(fd.get(), block.data(), block.size()) > 0) {
  }
}

void read_photos(benchmark::State& state, const Data& data, const std::string& records,
                 const std::string& tar) {
  const auto source = bench::must(io::list_records({records}, kPhoto, {}));
  Ranges of_records(data, std::filesystem::path(records).filename()),
      of_tar(data, std::filesystem::path(tar).filename());
  for (std::uint64_t i = 0; i < data.photos; ++i) {
    const io::RecordAddress at = source->manifest(0)->record(i);
    of_records.add(at.offset, at.bytes);
    of_tar.add(i * align_up<std::uint64_t>(512 + kPhotoBytes, 512) + 512, kPhotoBytes);
  }
  of_records.shuffle();
  of_tar.shuffle();
  read_anew(records);
  read_anew(tar);
  bench::run_in_turns(state, {{"tar", [&] { return of_tar.cpu_ns_per_read(); }},
                              {"records", [&] { return of_records.cpu_ns_per_read(); }}});
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(data.photos));
}

}  // namespace

int main(int argc, char** argv) {
  bench::Program program(argc, argv);
  Data data;
  data.dir = program.text("--dir", "bench_formats_data");
  if (program.smoke()) data.dir += "_smoke";
  data.photos = program.count("--photos", program.smoke() ? 20 : data.photos);
  const std::uint64_t small = program.smoke() ? 1000 : 1'000'000;
  const auto records = [&](std::uint64_t bytes) {
    const std::uint64_t count = std::max<std::uint64_t>(small * 100 / bytes, 10);
    return std::pair(made(data, "small-" + std::to_string(bytes), count,
                          [&](std::uint64_t) { return framed(noise(bytes)); }),
                     count);
  };
  const std::string photo = noise(kPhotoBytes);
  const std::string photos = made(data, "photos.tfrecord", data.photos,
                                  [&](std::uint64_t i) { return framed(photo_example(photo, i % 1000)); });
  const std::string tar = made(data, "photos.tar", data.photos, [&](std::uint64_t) {
    std::string member(align_up<std::uint64_t>(512 + kPhotoBytes, 512), '\0');
    return member.replace(512, kPhotoBytes, photo);
  });
  const int rounds = program.smoke() ? 1 : 7;
  const auto add = [&](const std::string& name, const auto& run) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->Iterations(rounds)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  };
  for (const std::uint64_t bytes : {100, 300, 2000}) {
    const auto [path, count] = records(bytes);
    for (const bool checked : {false, true})
      add("index whole records of " + std::to_string(bytes) + (checked ? " B, checked" : " B"),
          [=](benchmark::State& state) {
            index_file(state, path, count, checked ? kWhole : unchecked(kWhole));
          });
  }
  add("index whole photos",
      [&](benchmark::State& state) { index_file(state, photos, data.photos, unchecked(kWhole)); });
  add("index photos", [&](benchmark::State& state) { index_file(state, photos, data.photos, kPhoto); });
  add("index photos, unchecked",
      [&](benchmark::State& state) { index_file(state, photos, data.photos, unchecked(kPhoto)); });
  add("read photos", [&](benchmark::State& state) { read_photos(state, data, photos, tar); });
  return program.run();
}
