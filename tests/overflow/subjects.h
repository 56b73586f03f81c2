#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "loader/overflow/remote_executor.h"
#include "loader/stream/stream_scheduler.h"
#include "tests/overflow/photos.h"
#include "tests/overflow/script.h"
#include "tests/overflow/scripted_worker.h"
#include "tests/overflow/thread_executor.h"

// What the conformance suite of executors runs on. A subject is made from a pipeline, the number of ops that are the
// executor's, and a script; parts() is for one stream. `kCuts` are the numbers of ops that it can have.
namespace carya::loader {

/// Has no worker, and accuses workers of which nothing is there.
class AccusingExecutor final : public Executor {
 public:
  void begin(ChunkDone, std::function<void()>) override {}
  void offer(StreamScheduler& scheduler, Outbox& out) override {
    if (accused_ < kAccusedMax) scheduler.distrust(++accused_, out);
  }
  void stop() override {}
  void end() override {}

 private:
  static constexpr std::uint64_t kAccusedMax = 64;
  std::uint64_t accused_ = 0;  // under the engine's lock
};

/// A plan whose rows have the fates that a script says. A row that fails is one whose file is just being changed.
class ScriptedPlan final : public transforms::Plan {
 public:
  ScriptedPlan(std::shared_ptr<const transforms::Plan> plan, std::shared_ptr<Script> script)
      : plan_(std::move(plan)), script_(std::move(script)) {}

  const std::vector<transforms::SourceField>& inputs() const override { return plan_->inputs(); }
  const std::vector<transforms::TensorSpec>& outputs() const override { return plan_->outputs(); }
  bool decodes_windows() const override { return plan_->decodes_windows(); }
  Status run(transforms::Scratch& scratch, const transforms::SampleId& id,
             std::span<const std::span<const std::byte>> inputs, std::span<std::byte* const> outputs,
             std::span<transforms::FieldIndex> indexes) const override {
    if (script_->next() != Script::Fate::kFails) return plan_->run(scratch, id, inputs, outputs, indexes);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      std::memset(outputs[i], 0xEE, static_cast<std::size_t>(plan_->outputs()[i].bytes()));
    return fail(Code::kIo, "the script says that it fails");
  }
  Result<std::vector<transforms::OwnedTensor>> sample(
      const transforms::SampleId& id, std::span<const std::span<const std::byte>> inputs) const override {
    return plan_->sample(id, inputs);
  }
  void collect_profile(transforms::Scratch& scratch,
                       std::vector<transforms::OpProfile>& total) const override {
    plan_->collect_profile(scratch, total);
  }
  void collect_decodes(transforms::Scratch& scratch, transforms::DecodePaths& total) const override {
    plan_->collect_decodes(scratch, total);
  }
  Status pack(transforms::Scratch& scratch, const transforms::SampleId& id,
              std::span<const std::span<const std::byte>> inputs, const PackRoom& room,
              std::span<transforms::FieldIndex> indexes) const override {
    return plan_->pack(scratch, id, inputs, room, indexes);
  }
  void unpack(std::span<const std::byte> packed,
              std::span<std::span<const std::byte>> inputs) const override {
    plan_->unpack(packed, inputs);
  }

 private:
  const std::shared_ptr<const transforms::Plan> plan_;
  const std::shared_ptr<Script> script_;
};

/// The engine's own threads. They take chunks of the scheduler without Executor; the script is in their plan. They are
/// what others are compared with and cannot lie: it is others that are accused beside them.
class LocalThreads {
 public:
  static constexpr std::uint64_t kCuts[] = {kAllOps};
  LocalThreads(const PhotoFolder&, const Opened& opened, std::uint64_t, std::shared_ptr<Script> script,
               double)
      : opened_(opened), script_(std::move(script)) {}

  GivenParts parts() {
    const std::vector<std::size_t> declared{0, 1, 2, 3},
        other{0, 1, 3, 2};  // equal bits; a ledger has each order once
    auto plan =
        transforms::Plan::compile(opened_.pipeline, {.seed = opened_.pipeline->seed(), .order = declared});
    EXPECT_TRUE(plan) << plan.error().message;
    const auto scripted = std::make_shared<PlanInUse>(
        PlanInUse{.plan = std::make_shared<ScriptedPlan>(*plan, script_), .profile = {.order = other}});
    const StreamPlannerOptions options{.seed = opened_.pipeline->seed(), .frozen_order = declared};
    return {.planner = std::make_shared<StreamPlanner>(opened_.pipeline, options),
            .executor = std::make_shared<AccusingExecutor>(),
            .plan_chooser = [scripted] { return scripted; }};
  }
  /// Whether this subject, told to lie, was found out.
  bool found_out() const { return true; }

 private:
  const Opened opened_;
  const std::shared_ptr<Script> script_;
};

/// Threads of this process, by the Executor that the tests have.
class WorkerThreads {
 public:
  static constexpr std::uint64_t kCuts[] = {2, 3, kAllOps};
  WorkerThreads(const PhotoFolder&, const Opened& opened, std::uint64_t cut, std::shared_ptr<Script> script,
                double)
      : opened_(opened), ops_(cut), script_(std::move(script)) {}

  GivenParts parts() {
    const auto plan = WorkerPlan::compile(remote_plan(*opened_.pipeline, ops_));
    EXPECT_TRUE(plan) << plan.error().message;
    const PlanCut cut{.plan = 1, .outputs = (*plan)->outputs(), .rest = rest_of(*opened_.pipeline, ops_)};
    executor_ = std::make_shared<ThreadExecutor>(std::make_shared<PlanCut>(cut), *plan,
                                                 ThreadExecutor::Options{.script = script_});
    return {.executor = executor_};
  }
  bool found_out() const { return executor_->distrusted() > 0; }

 private:
  const Opened opened_;
  const std::uint64_t ops_;
  const std::shared_ptr<Script> script_;
  std::shared_ptr<ThreadExecutor> executor_;
};

/// RemoteExecutor over a Unix socket, with a server of this process. A share `verify` of results is compared.
class RemoteWorkers {
 public:
  static constexpr std::uint64_t kCuts[] = {2, 3, kAllOps};
  RemoteWorkers(const PhotoFolder& folder, const Opened& opened, std::uint64_t cut,
                std::shared_ptr<Script> script, double verify)
      : opened_(opened), ops_(cut), verify_(verify), path_(folder.socket()) {
    std::filesystem::remove(path_);
    worker_ = std::make_unique<ScriptedWorker>(path_, std::move(script));
  }

  GivenParts parts() {
    auto executor = RemoteExecutor::create({.workers = {"unix:" + path_}, .lead = 0, .verify = verify_});
    EXPECT_TRUE(executor) << executor.error().message;
    executor_ = *executor;
    EXPECT_TRUE(executor_->set_plan(remote_plan(*opened_.pipeline, ops_), rest_of(*opened_.pipeline, ops_)));
    return {.executor = executor_};
  }
  bool found_out() const {
    return std::ranges::any_of(executor_->figures(), [](const remote::WorkerStats& one) {
      return one.state == remote::WorkerStats::State::kExpelled;
    });
  }

 private:
  const Opened opened_;
  const std::uint64_t ops_;
  const double verify_;
  const std::string path_;
  std::unique_ptr<ScriptedWorker> worker_;
  std::shared_ptr<RemoteExecutor> executor_;
};

}  // namespace carya::loader
