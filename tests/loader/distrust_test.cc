// What becomes of rows that a worker computed when it turns out not to be trusted.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "loader/stream/executor.h"
#include "loader/stream/stream_scheduler.h"
#include "tests/loader/model_ring.h"
#include "tests/loader/model_sources.h"

namespace carya::loader {
namespace {

/// A stream of two threads whose first batch a thread keeps, so that nothing is published, and whose second
/// one a worker has computed up to the second stage.
struct OneWorker {
  explicit OneWorker(const Source& source)
      : records{.dataset = source.dataset},
        ring(std::make_shared<ModelRing>(layout(source), 4)),
        plan(make_plan(source, true)),
        cut(std::make_shared<PlanCut>(
            PlanCut{.plan = 1, .outputs = plan->plan->outputs(), .rest = make_plan(source, false)})) {
    ring->on_acquired = [](std::uint32_t) {};
    ring->on_published = [](std::uint32_t, std::uint64_t, const shm::Meta&) {};
    ring->before_waiting = [] {};
    scheduler = StreamScheduler::create({.pipeline = source.pipeline,
                                         .dataset = source.dataset,
                                         .ring = ring,
                                         .index = source.index,
                                         .planner = source.planner},
                                        plan, pool,
                                        {.shape = *StreamShape::create(9, 4, 0, 1, 0, false, false),
                                         .on_error = transforms::OnError::kMask,
                                         .threads = 2,
                                         .read_ahead_bytes = 64 << 20,
                                         .io_timeout_ns = INT64_C(1) << 50});
    pump();
    kept = scheduler->take_runnable();
    auto work = scheduler->take_remote(cut, {});
    work->worker = kWorker;
    scheduler->end_remote(*work, true, out);
  }
  static shm::SlotLayout layout(const Source& source) {
    std::vector<shm::SlotTensor> tensors{{.name = "image", .shape = {4, kModelImageBytes}}};
    if (source.has_reads) tensors.push_back({.name = "label", .dtype = DType::kInt64, .shape = {4}});
    tensors.push_back({.name = "carya.records", .dtype = DType::kInt64, .shape = {4}});
    tensors.push_back({.name = "carya.valid", .dtype = DType::kBool, .shape = {4}});
    return *shm::SlotLayout::create(std::move(tensors));
  }
  std::shared_ptr<PlanInUse> make_plan(const Source& source, bool whole) {
    auto made = std::make_shared<ModelPlan>(records, source.pipeline->fields(), whole, 1000);
    return std::make_shared<PlanInUse>(PlanInUse{std::move(made), {.order = {whole ? 0U : 1U}}});
  }
  void pump() {
    scheduler->pump(out);
    const std::vector<ReadOp*> reads = std::exchange(out.reads, {});
    for (ReadOp* op : reads) scheduler->read_done(*op, {.ok = true}, std::nullopt, out);
    if (!reads.empty()) pump();
  }
  void compute(Chunk& chunk) {
    ComputeScratch scratch = scheduler->parallelism().take_scratch();
    scheduler->compute(chunk, scratch);
    scheduler->finish(chunk, std::move(scratch), {}, out);
    pump();
  }
  void compute_all() {
    while (Chunk* const chunk = scheduler->take_runnable()) compute(*chunk);
  }

  static constexpr std::uint64_t kWorker = 7;
  ModelRecords records;
  ReadBufferPool pool{1 << 20};
  std::shared_ptr<ModelRing> ring;
  std::shared_ptr<PlanInUse> plan;
  std::shared_ptr<const PlanCut> cut;
  std::shared_ptr<StreamScheduler> scheduler;
  Outbox out;
  Chunk* kept = nullptr;
};

TEST(Distrust, WhatIsFoundOfRowsThatAreComputedAgainIsShownOnce) {
  const Sources sources;
  OneWorker stream(sources.find(false, false));  // 9 records in order
  stream.records.broken_second = {6};
  stream.compute_all();
  EXPECT_EQ(stream.scheduler->stats().masked, 1U);
  stream.scheduler->distrust(OneWorker::kWorker, stream.out);
  stream.pump();
  stream.compute_all();
  stream.compute(*stream.kept);
  ASSERT_GE(stream.scheduler->stats().batches, 2U);
  const auto& found = stream.scheduler->sequencer().quarantine();
  ASSERT_TRUE(found.contains(2));
  EXPECT_EQ(found.at(2).size(), 1U);
  EXPECT_EQ(found.at(2)[0].record, 6U);
}

// Else what came of the first worker would be forgotten, and kept when that one is distrusted.
TEST(Distrust, RowsThatCameOfOneWorkerAreNotSentToAnother) {
  const Sources sources;
  OneWorker stream(sources.find(true, false));
  stream.records.changing = {4, 5, 6, 7};
  Chunk* const came = stream.scheduler->take_runnable();
  ASSERT_NE(came, nullptr);
  const std::uint64_t order = came->order;
  stream.compute(*came);  // its rows are read again
  for (auto work = stream.scheduler->take_remote(stream.cut, {}); work;
       work = stream.scheduler->take_remote(stream.cut, {}))
    EXPECT_NE(work->chunk->order, order);
}

}  // namespace
}  // namespace carya::loader
