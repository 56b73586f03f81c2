#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "autotune/controller/controller.h"
#include "autotune/simulator/world.h"

namespace carya::autotune::simulator {

/// Who decides how a simulated stream runs.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual Running run() const = 0;
  virtual void observe(const Measurements& seen, double now_s) = 0;
  /// Whether what runs is a trial and no answer.
  virtual bool trial() const { return false; }
  /// Told of a change of the world, as it happens: the oracle of all, ours of prices only (a user gives
  /// them).
  virtual void told(const World&) {}
};

/// Always the same.
class FixedPolicy : public Policy {
 public:
  explicit FixedPolicy(const Running& run) : run_(run) {}
  Running run() const override { return run_; }
  void observe(const Measurements&, double) override {}

 private:
  Running run_;
};

/// autotune/controller/controller.h, the code that runs in the loader.
class OurPolicy : public Policy {
 public:
  explicit OurPolicy(Controller controller) : controller_(std::move(controller)) {}
  Running run() const override { return controller_.decision().run; }
  void observe(const Measurements& seen, double now_s) override { controller_.observe(seen, now_s); }
  void told(const World& world) override { static_cast<void>(controller_.set_prices(world.spec().prices)); }
  bool trial() const override { return controller_.decision().phase == Phase::kFirstWorker; }
  Controller& controller() { return controller_; }

 private:
  Controller controller_;
};

/// Knows what is true and tries every number of workers at every cut in the world itself. Pays the same
/// start-up time and billing minimum: it changes when that pays within the hour, or ends waiting that the
/// goal does not accept.
class OraclePolicy : public Policy {
 public:
  OraclePolicy(const World& world, double horizon_s);
  Running run() const override { return run_; }
  void observe(const Measurements& seen, double now_s) override;
  void told(const World& world) override;

 private:
  struct Value {
    double cost_per_sample, rate;
    bool fits;
  };
  Value value(const World& world, const Running& run) const;

  double horizon_s_;
  double left_s_ = 0;
  Running run_;
};

/// Offloads a fixed fraction of the batches to two workers, after a profile of either side alone: each takes
/// what it makes while the other makes its own. README, assumption 5.
class FastFlowPolicy : public Policy {
 public:
  FastFlowPolicy(double cores, double element_samples) : cores_(cores), element_samples_(element_samples) {}
  Running run() const override;
  void observe(const Measurements& seen, double now_s) override;

 private:
  enum class Stage : std::uint8_t { kLocal, kRemote, kBoth };
  double cores_, element_samples_;
  Stage stage_ = Stage::kLocal;
  double elements_ = 0;  // of the stage
};

/// Pecan's AutoPlacement, and what its artifact calls Cachew (no local workers). Source: reference of Pecan
/// and Cachew, 1.2 and 1.3; where it leaves a choice, README.
struct PecanOptions {
  std::uint32_t local_max = 10;    ///< MAX_LOCAL_WORKERS_PER_JOB; 0: Cachew
  std::uint32_t remote_max = 100;  ///< MAX_REMOTE_WORKERS_PER_JOB, or the pool
  double element_samples = 128;    ///< of one tf.data service element
  double remove_s = 10;            ///< from dismissing a worker until it is gone
  Prices prices;
  std::size_t cut = 0;  ///< all remote
};

class PecanPolicy : public Policy {
 public:
  explicit PecanPolicy(const PecanOptions& options);
  Running run() const override;
  void observe(const Measurements& seen, double now_s) override;
  std::uint32_t reports() const { return reports_; }

 private:
  enum class State : std::uint8_t { kOnlyRemote, kIncreasingLocal, kDecreasingRemote, kStable };
  struct Report {
    std::uint32_t remote = 0, local = 0;
    double seconds = 0;  // of 500 elements
  };
  void report(const Report& now);
  void only_remote(const Report& now, const Report& before, double better);
  void increasing_local(const Report& now, double better);
  void decreasing_remote(const Report& now, double better);

  PecanOptions options_;
  State state_ = State::kOnlyRemote;
  std::uint32_t remote_ = 1, local_ = 0;  // targets
  std::uint32_t init_ = 0;
  std::deque<Report> history_;
  std::uint32_t reports_ = 0;

  // The window under way.
  double gone_s_ = 0;    // when the last dismissed worker is gone
  double discard_;       // elements still to be left out
  double elements_ = 0;  // in the window
  double seconds_ = 0;
};

}  // namespace carya::autotune::simulator
