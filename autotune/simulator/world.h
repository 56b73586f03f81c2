#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "autotune/controller/estimate.h"
#include "autotune/placement/placement.h"
#include "base/philox.h"

namespace carya::autotune::simulator {

/// How workers come and go.
struct Fleet {
  double start_s = 30;        ///< from being asked for until it works
  double billed_s_min = 0;    ///< paid for every worker
  std::uint32_t size = 64;    ///< more are never there
  double fails_per_hour = 0;  ///< of one worker; another is started in its place
  double part = 1;            ///< of each worker that others leave to the host
  double paid = 1;            ///< of each worker by the host
};

/// What is true of a simulated host, its trainer, workers and link.
struct WorldSpec {
  PlacementInputs truth;
  Prices prices;
  Fleet fleet;
  double noise = 0;         ///< standard deviation of every measurement, as a share of it
  double scaling_loss = 0;  ///< of all workers' rate per worker beyond the first; no measurement shows it
  std::uint64_t seed = 0;
};

/// What a run has cost so far.
struct Bill {
  double host = 0;     ///< $
  double workers = 0;  ///< $
  double samples = 0;
  double stall_s = 0;
  double total() const { return host + workers; }
};

/// How a stream ran at some time.
struct Moment {
  double at_s = 0;
  std::uint32_t workers = 0;
  double cost_per_sample = 0;  ///< $, at the rate and the workers of that moment
};

/// One host on simulated time: what it does when it is run in some way, what can be seen of that, and the
/// bill. Its rates are its own code, not the planner's model. Threads: owner only.
class World {
 public:
  explicit World(const WorldSpec& spec);

  /// Runs for `seconds` as `run` says and returns what is seen.
  Measurements step(const Running& run, double seconds);
  /// Samples/s when so many workers are up.
  double rate(const Running& run, std::uint32_t ready) const {
    return flow(run, ready, spec_.fleet.part).rate;
  }
  /// How many whole workers the samples would take that go to workers if `run` had all of each.
  double workers_busy(const Running& run) const;
  /// Changes what is true from now on. The number of cuts stays.
  PlacementInputs& truth() { return spec_.truth; }
  Moment moment(const Running& run, std::uint32_t ready) const;
  void set_prices(const Prices& prices) { spec_.prices = prices; }
  void lose_all_workers();
  /// From now on there are so many; those beyond are dismissed at the next step.
  void set_fleet_size(std::uint32_t size) { spec_.fleet.size = size; }
  /// Of each worker: what others leave to the host, and what it pays.
  void set_part(double part, double paid) { spec_.fleet.part = part, spec_.fleet.paid = paid; }

  const WorldSpec& spec() const { return spec_; }
  double now_s() const { return now_s_; }
  const Bill& bill() const { return bill_; }
  /// Workers asked for whose minimum is not over, so that dismissing them saves nothing.
  std::uint32_t paid_workers() const;
  /// Pays the minimum of those that are left.
  void close();

 private:
  struct Worker {
    double asked_s = 0, up_s = 0, fails_s = 0;
  };
  struct Flow {
    double rate = 0, remote = 0;
    bool link_full = false;
  };
  Flow flow(const Running& run, std::uint32_t ready, double part) const;
  Worker new_worker();
  void scale(std::uint32_t workers);
  std::uint32_t ready_workers();
  double noisy(double value);

  WorldSpec spec_;
  SampleRng random_;
  double now_s_ = 0;
  Bill bill_;
  std::vector<Worker> workers_;
};

}  // namespace carya::autotune::simulator
