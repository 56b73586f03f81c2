#include "loader/wire/worker_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/hash.h"
#include "tests/transforms/samples_test_lib.h"
#include "transforms/jpeg/header.h"
#include "transforms/jpeg/index.h"

namespace carya::loader {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using transforms::testing::Bytes;
using transforms::testing::document;
using transforms::testing::label_bytes;
using transforms::testing::make_jpeg;
using transforms::testing::pipeline_of;
using transforms::testing::run_guarded;

constexpr std::uint64_t kSeed = 5;
constexpr std::uint64_t kEpoch = 3;
const std::vector<std::size_t> kOrder{0, 1, 2, 3};

std::shared_ptr<const transforms::Pipeline> photos() {
  return pipeline_of(document(
      R"({"op":"decode_image"},{"op":"random_resized_crop","size":[32,24]},{"op":"random_horizontal_flip"},)"
      R"({"op":"normalize","mean":0.4,"std":0.2})"));
}

RemotePlan plan_for(const transforms::Pipeline& pipeline, std::uint64_t cut) {
  return {.id = 7,
          .pipeline = pipeline.to_json(),
          .fingerprint = pipeline.fingerprint(transforms::OnError::kRaise),
          .seed = kSeed,
          .order = {kOrder.begin(), kOrder.end()},
          .cut = cut};
}

// Rows of a host's chunk, as they go to a worker.
struct Work {
  std::vector<RemoteRow> rows;
  std::vector<Bytes> inputs;   // rows x fields
  std::vector<Bytes> entries;  // the same, or none

  RemoteChunk chunk() const { return {.plan = 7, .epoch = kEpoch, .rows = rows.size()}; }
  Bytes payload() const {
    const RemoteInputs sent{
        .rows = rows, .inputs = {inputs.begin(), inputs.end()}, .entries = {entries.begin(), entries.end()}};
    Bytes bytes = remote_table(photos()->fields(), sent);
    for (const auto part : remote_parts(photos()->fields(), sent))
      bytes.insert(bytes.end(), part.begin(), part.end());
    return bytes;
  }
};

Work four_photos() {
  Work work;
  for (std::uint64_t i = 0; i < 4; ++i) {
    work.rows.push_back({.record = 40 + i, .occurrence = i % 2});
    work.inputs.push_back(make_jpeg(60 + static_cast<int>(i), 50, 3, false, 2, 1, 9));
    work.inputs.push_back(label_bytes(static_cast<std::int64_t>(i)));
  }
  return work;
}

struct Computed {
  RemoteResult result;
  Bytes bytes;
};

Result<Computed> compute(const WorkerPlan& plan, const RemoteChunk& chunk, const Bytes& payload) {
  transforms::Scratch scratch;
  ASSIGN(const std::uint64_t bytes, plan.result_bytes(chunk));
  Computed computed{.bytes = Bytes(bytes, std::byte{0xAA})};
  ASSIGN(computed.result, plan.compute(chunk, payload, scratch, computed.bytes));
  return computed;
}

// What row `row` of a result has in each tensor.
std::vector<Bytes> row_of(const WorkerPlan& plan, const Bytes& result, std::size_t rows, std::size_t row) {
  std::vector<Bytes> tensors;
  std::size_t at = 0;
  for (const transforms::TensorSpec& spec : plan.outputs()) {
    const auto bytes = static_cast<std::size_t>(spec.bytes());
    const auto first = result.begin() + static_cast<std::ptrdiff_t>(at + row * bytes);
    tensors.emplace_back(first, first + static_cast<std::ptrdiff_t>(bytes));
    at += rows * bytes;
  }
  return tensors;
}

TEST(WorkerPlan, ComputesTheRowsOfTheHostUpToEveryCut) {
  const auto pipeline = photos();
  const Work work = four_photos();
  transforms::Scratch scratch;
  const auto whole = transforms::Plan::compile(pipeline, {.seed = kSeed});
  for (std::uint64_t cut = 2; cut <= 4; ++cut) {
    const auto worker = WorkerPlan::compile(plan_for(*pipeline, cut));
    ASSERT_TRUE(worker) << worker.error().message;
    const auto computed = compute(**worker, work.chunk(), work.payload());
    ASSERT_TRUE(computed) << computed.error().message;
    EXPECT_TRUE(computed->result.broken.empty());
    const auto rest = transforms::Plan::compile(pipeline, {.seed = kSeed, .first = cut});
    ASSERT_TRUE(rest);
    for (std::size_t row = 0; row < work.rows.size(); ++row) {
      const transforms::SampleId id{kEpoch, work.rows[row].record, work.rows[row].occurrence};
      const auto expected =
          run_guarded(**whole, scratch, id, {work.inputs[2 * row], work.inputs[2 * row + 1]});
      const auto there = row_of(**worker, computed->bytes, work.rows.size(), row);
      const auto here = run_guarded(**rest, scratch, id, there);
      EXPECT_EQ(here.tensors, expected.tensors) << "cut " << cut << ", row " << row;
    }
  }
}

std::span<const std::uint8_t> unsigned_bytes(const Bytes& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

// Points at each row of the picture's blocks; `lie`: the second one says other brightness.
Bytes entry_of(const Bytes& photo, bool lie) {
  transforms::FieldIndex made;
  EXPECT_TRUE(transforms::IndexMaker().complete(photo, made));
  jpeg::Index honest(0);
  EXPECT_TRUE(honest.read(made.made));
  jpeg::Header header;
  EXPECT_EQ(jpeg::read_header(unsigned_bytes(photo), header), jpeg::Ordinary::kOrdinary);
  jpeg::Index index(0);
  index.bind(header, photo.size(), hash64(photo));
  for (jpeg::IndexPoint point : honest.points()) {
    if (lie && index.points().size() > 0) point.dc[0] = static_cast<std::int16_t>(point.dc[0] + 30);
    index.append(point);
  }
  std::vector<std::uint8_t> written;
  index.write(written);
  const auto bytes = std::as_bytes(std::span(written));
  return {bytes.begin(), bytes.end()};
}

// Their photos are long, so that crops begin behind the first points.
Work long_photos(const std::function<Bytes(const Bytes&)>& entry) {
  Work work = four_photos();
  for (std::size_t i = 0; i < work.inputs.size(); i += 2) {
    work.inputs[i] = make_jpeg(40, 400, 3, false, 2, 1, static_cast<std::uint32_t>(i + 1));
    work.entries.push_back(entry(work.inputs[i]));
    work.entries.emplace_back();
  }
  return work;
}

TEST(WorkerPlan, EntriesAreUsedAndChangeNoBit) {
  const auto worker = WorkerPlan::compile(plan_for(*photos(), 4));
  ASSERT_TRUE(worker);
  EXPECT_TRUE((*worker)->wants_entries());
  const auto result_with = [&](const std::function<Bytes(const Bytes&)>& entry) {
    const Work work = long_photos(entry);
    const auto computed = compute(**worker, work.chunk(), work.payload());
    EXPECT_TRUE(computed) << computed.error().message;
    return computed ? computed->bytes : Bytes();
  };
  const Bytes without = result_with([](const Bytes&) { return Bytes(); });
  EXPECT_EQ(result_with([](const Bytes& photo) { return entry_of(photo, false); }), without);
  EXPECT_EQ(result_with([](const Bytes&) { return Bytes(100, std::byte{7}); }), without);
  const Bytes other = entry_of(four_photos().inputs[0], false);
  EXPECT_EQ(result_with([&](const Bytes&) { return other; }), without) << "another photo's";
  EXPECT_NE(result_with([](const Bytes& photo) { return entry_of(photo, true); }), without)
      << "an entry of this file is believed: its host answers for it";
}

TEST(WorkerPlan, IsGivenUpInTheMiddleOfARow) {
  const auto blurred =
      pipeline_of(document(R"({"op":"decode_image"},{"op":"gaussian_blur","kernel_size":3},{"op":"invert"},)"
                           R"({"op":"gaussian_blur","kernel_size":3},{"op":"resize","size":[32,24]})"));
  RemotePlan plan = plan_for(*blurred, 5);
  plan.order = {0, 1, 2, 3, 4};
  const auto worker = WorkerPlan::compile(plan);
  ASSERT_TRUE(worker) << worker.error().message;
  const Work work = four_photos();
  transforms::Scratch scratch;
  const std::uint64_t bytes = (*worker)->result_bytes(work.chunk()).value();
  Bytes out(bytes);
  int asked = 0;  // before the first row, and then between its operations
  const auto given_up =
      (*worker)->compute(work.chunk(), work.payload(), scratch, out, [&] { return ++asked < 3; });
  ASSERT_FALSE(given_up);
  EXPECT_EQ(given_up.error().code, Code::kTimeout);
  EXPECT_THAT(given_up.error().message, HasSubstr("middle of row 0 of 4"));
  EXPECT_TRUE((*worker)->compute(work.chunk(), work.payload(), scratch, out)) << "the next chunk is another";
}

TEST(WorkerPlan, WantsNoEntriesWherePicturesAreDecodedWhole) {
  const auto whole = pipeline_of(document(R"({"op":"decode_image"},{"op":"resize","size":[32,24]})"));
  RemotePlan plan = plan_for(*whole, 2);
  plan.order = {0, 1};
  const auto worker = WorkerPlan::compile(plan);
  ASSERT_TRUE(worker) << worker.error().message;
  EXPECT_FALSE((*worker)->wants_entries());
}

TEST(WorkerPlan, LeavesBrokenRowsToTheHost) {
  const auto worker = WorkerPlan::compile(plan_for(*photos(), 4));
  ASSERT_TRUE(worker);
  Work work = four_photos();
  work.inputs[2].resize(100);  // a photo cut short
  work.inputs[6] = Bytes(50, std::byte{'x'});
  const auto computed = compute(**worker, work.chunk(), work.payload());
  ASSERT_TRUE(computed);
  EXPECT_THAT(computed->result.broken, ElementsAre(1, 3));
  for (const std::size_t row : {1, 3})
    for (const Bytes& tensor : row_of(**worker, computed->bytes, 4, row))
      EXPECT_EQ(tensor, Bytes(tensor.size(), std::byte{0}));
  const auto intact = compute(**worker, four_photos().chunk(), four_photos().payload());
  EXPECT_EQ(row_of(**worker, computed->bytes, 4, 2), row_of(**worker, intact->bytes, 4, 2));
}

TEST(WorkerPlan, RefusesWhatWouldGiveOtherBits) {
  RemotePlan other = plan_for(*photos(), 4);
  other.fingerprint.low ^= 1;
  const auto worker = WorkerPlan::compile(other);
  ASSERT_FALSE(worker);
  EXPECT_EQ(worker.error().code, Code::kUnsupported);
  EXPECT_THAT(worker.error().message, HasSubstr("libjpeg-turbo"));
}

TEST(WorkerPlan, RefusesWhatIsNoPlan) {
  RemotePlan none = plan_for(*photos(), 4);
  none.pipeline = "{\"version\":1}";
  EXPECT_FALSE(WorkerPlan::compile(none));
  RemotePlan twice = plan_for(*photos(), 4);
  twice.order = {0, 0, 1, 2};
  EXPECT_EQ(WorkerPlan::compile(twice).error().code, Code::kInvalidArgument);
  EXPECT_EQ(WorkerPlan::compile(plan_for(*photos(), 1)).error().code, Code::kInvalidArgument)
      << "decoded pictures have no fixed shape";
}

TEST(WorkerPlan, RefusesInputsThatItsPlanDoesNotTake) {
  const auto worker = WorkerPlan::compile(plan_for(*photos(), 4));
  ASSERT_TRUE(worker);
  Work work = four_photos();
  work.inputs[1].push_back(std::byte{0});  // a label of nine bytes
  const auto computed = compute(**worker, work.chunk(), work.payload());
  ASSERT_FALSE(computed);
  EXPECT_EQ(computed.error().code, Code::kCorrupt);
  EXPECT_THAT(computed.error().message, HasSubstr("label has 9 bytes"));
}

TEST(WorkerPlan, RefusesResultsThatAreTooLarge) {
  const auto worker = WorkerPlan::compile(plan_for(
      *pipeline_of(document(
          R"({"op":"decode_image"},{"op":"resize","size":[4000,4000]},{"op":"invert"},{"op":"random_horizontal_flip"})")),
      4));
  ASSERT_TRUE(worker);
  EXPECT_TRUE((*worker)->result_bytes({.rows = 20}));
  const auto bytes = (*worker)->result_bytes({.rows = kRemoteRowsMax});
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace carya::loader
