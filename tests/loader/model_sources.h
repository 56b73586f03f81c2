#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "loader/data/decode_index.h"
#include "loader/plan/stream_planner.h"
#include "tests/loader/model_plan.h"

namespace carya::loader {

/// Sources, shared by all histories: nothing of them is ever read, so files need sizes only.
struct Source {
  std::shared_ptr<const transforms::Pipeline> pipeline;
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<StreamPlanner> planner;
  std::shared_ptr<DecodeIndex> index;
  bool has_reads = true, sees_all = true;
};

class Sources {
 public:
  static constexpr std::uint64_t kRecords = 61, kRowBytes = 24;

  Sources() : arrays_(kRecords * kRowBytes) {
    std::string name = (std::filesystem::temp_directory_path() / "carya-model-XXXXXX").string();
    path_ = mkdtemp(name.data());
    for (const std::string folder : {"small", "huge"})
      for (std::uint64_t i = 0; i < kRecords; ++i) {
        const bool is_huge = folder == "huge" && i % 20 == 7;
        const std::uint64_t bytes = is_huge       ? kEncodedBytesMax + 1
                                    : i % 11 == 3 ? 40'000 - i
                                                  : 16 + i * 37 % 300;
        make_file(path_ / folder / (i < kRecords / 2 ? "ant" : "bee") / (std::to_string(1000 + i) + ".jpg"),
                  bytes);
      }
    ModelRecords records;
    for (std::uint64_t i = 0; i < kRecords; ++i) records.fill(i, arrays_.data() + i * kRowBytes, kRowBytes);
    for (const char* shuffle : {"null", R"({"seed":5})"})
      for (const char* views : {"[]", R"([{"view":"subset","indices":[8,60,3,14,1,25,40,7,31]}])"}) {
        add_files("small", views, shuffle, true);
        add_files("huge", views, shuffle, false);
        add_arrays(views, shuffle);
      }
  }
  ~Sources() { std::filesystem::remove_all(path_); }
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;

  std::vector<Source> all;
  /// 9 records.
  const Source& find(bool has_reads, bool shuffled) const {
    return *std::ranges::find_if(all, [&](const Source& source) {
      return source.has_reads == has_reads && source.sees_all == has_reads &&
             source.pipeline->shuffled() == shuffled && source.dataset->count() == 9;
    });
  }

 private:
  static void make_file(const std::filesystem::path& file, std::uint64_t bytes) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file).close();
    std::filesystem::resize_file(file, bytes);  // a hole
  }
  void add(const std::string& source, const std::string& views, const std::string& shuffle, bool has_reads,
           bool sees_all, const DatasetOptions& options) {
    auto pipeline = transforms::Pipeline::parse(
        R"({"version":1,"source":)" + source + R"(,"views":)" + views + R"(,"shuffle":)" + shuffle +
        R"(,"ops":[],"batch":{"batch_size":4,"global_size":null,"drop_last":false,"pad_last":false}})");
    ASSERT_TRUE(pipeline) << pipeline.error().message;
    auto dataset = Dataset::open(**pipeline, options);
    ASSERT_TRUE(dataset) << dataset.error().message;
    all.push_back({*pipeline, *dataset, std::make_shared<StreamPlanner>(*pipeline, StreamPlannerOptions()),
                   DecodeIndex::open(**dataset, {}), has_reads, sees_all});
  }
  void add_files(const std::string& folder, const char* views, const char* shuffle, bool sees_all) {
    add(R"({"type":"image_folder","path":")" + (path_ / folder).string() + R"("})", views, shuffle, true,
        sees_all, {});
  }
  void add_arrays(const char* views, const char* shuffle) {
    DatasetOptions options;
    options.arrays["image"] = {arrays_.data(), kRowBytes, kRecords};
    add(R"({"type":"arrays","count":61,"arrays":{"image":{"dtype":"uint8","shape":[24],"fingerprint":"00"}}})",
        views, shuffle, false, false, options);
  }

  std::filesystem::path path_;
  std::vector<std::byte> arrays_;
};

}  // namespace carya::loader
