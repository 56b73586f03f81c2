#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "loader/job/job.h"

namespace carya::loader {

/// A pipeline over a folder of photos: shuffled, decoded, cropped to 16x16, flipped.
struct Opened {
  std::shared_ptr<const transforms::Pipeline> pipeline;
  std::shared_ptr<const Dataset> dataset;
};

inline Opened open_folder(const std::filesystem::path& folder, const std::string& batch) {
  const std::string json =
      R"({"version":1,"source":{"type":"image_folder","path":")" + folder.string() +
      R"("},"views":[],"shuffle":{"seed":5},"ops":[{"op":"decode_image"},)"
      R"({"op":"random_resized_crop","size":[16,16]},{"op":"random_horizontal_flip"}],"batch":)" +
      batch + "}";
  auto pipeline = transforms::Pipeline::parse(json);
  EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message);
  auto dataset = Dataset::open(**pipeline, {});
  EXPECT_TRUE(dataset) << (dataset ? "" : dataset.error().message);
  return {*pipeline, *dataset};
}

/// A job whose stream is made of the parts that are given.
inline std::shared_ptr<Job> start(const Opened& opened, const JobOptions& options, GivenParts parts) {
  auto job =
      Job::create(attach_embedded(opened.pipeline, opened.dataset, options, std::move(parts)), options);
  EXPECT_TRUE(job) << (job ? "" : job.error().message);
  return job ? *job : nullptr;
}

inline std::shared_ptr<Job> start(const Opened& opened, const JobOptions& options) {
  return start(opened, options, GivenParts{});
}

inline std::shared_ptr<Job> start(const Opened& opened, const JobOptions& options,
                                  std::shared_ptr<Executor> executor) {
  return start(opened, options, GivenParts{.executor = std::move(executor)});
}

/// Hash of every row of a batch: record, validity and image.
inline std::vector<std::uint64_t> row_hashes(const Job& job, const Batch& batch) {
  std::vector<std::uint64_t> hashes;
  const auto& tensors = job.layout().tensors();
  for (std::uint64_t row = 0; row < batch.rows; ++row) {
    std::uint64_t hash = 0;
    for (const shm::SlotTensor& tensor : tensors) {
      const std::uint64_t bytes = tensor.bytes() / tensor.shape[0];
      hash = hash64(std::span(batch.lease.data() + tensor.offset + row * bytes, bytes), hash);
    }
    hashes.push_back(hash);
  }
  return hashes;
}

/// The rest of an epoch as one list of rows.
inline std::vector<std::uint64_t> drain(Job& job) {
  std::vector<std::uint64_t> rows;
  while (true) {
    Result<Batch> batch = job.next(120'000);
    EXPECT_TRUE(batch) << (batch ? "" : batch.error().message);
    if (!batch) return rows;
    const auto hashes = row_hashes(job, *batch);
    rows.insert(rows.end(), hashes.begin(), hashes.end());
    if (batch->last) return rows;
  }
}

/// So many epochs.
inline std::vector<std::vector<std::uint64_t>> drain_epochs(Job& job, int count) {
  std::vector<std::vector<std::uint64_t>> epochs;
  for (int epoch = 0; epoch < count; ++epoch) epochs.push_back(drain(job));
  return epochs;
}

inline constexpr char kBatch4[] = R"({"batch_size":4,"global_size":null,"drop_last":false,"pad_last":false})";

/// Records of any source in order, decoded and cropped to 16x16.
inline Opened open_source(const std::string& source) {
  const std::string json = R"({"version":1,"source":)" + source +
                           R"(,"views":[],"shuffle":null,"ops":[{"op":"decode_image"},)"
                           R"({"op":"random_resized_crop","size":[16,16]}],"batch":)" +
                           kBatch4 + "}";
  auto pipeline = transforms::Pipeline::parse(json);
  EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message);
  auto dataset = Dataset::open(**pipeline, {});
  EXPECT_TRUE(dataset) << (dataset ? "" : dataset.error().message);
  return {*pipeline, *dataset};
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace carya::loader
