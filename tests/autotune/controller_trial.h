#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "autotune/controller/controller.h"

namespace carya::autotune {

/// A host, its workers and its trainer, whose true numbers a test sets; what is measured of them is noisy.
class World {
 public:
  PlacementInputs truth;
  double noise = 0.05;
  double start_s = 20;
  std::uint32_t fleet = 1000;  // workers there are
  double now_s = 0;

  World(PlacementInputs facts, std::uint64_t seed) : truth(std::move(facts)), random_(seed) {}

  Measurements step(const Running& run, double seconds) {
    now_s += seconds;
    while (asked_ < run.workers) up_at_.push_back(now_s + start_s), ++asked_;
    if (run.workers < asked_) up_at_.resize(asked_ = run.workers);
    const auto up = std::count_if(up_at_.begin(), up_at_.end(), [this](double at) { return at <= now_s; });
    const auto ready = std::min(fleet, static_cast<std::uint32_t>(up));
    PlacementInputs here = truth;
    here.cores = std::min(truth.cores, run.cores);
    const Choice real = predict(here, {}, {}, run.cut, ready);
    const double remote = real.rate * real.remote_share * seconds, local = real.rate * seconds - remote;
    // A first worker gets some chunks even where local cores suffice.
    const double tried = ready > 0 ? std::max(remote, 1.0) : 0;
    Measurements seen{.seconds = seconds,
                      .samples = noisy(real.rate * seconds),
                      .stall_s = real.stall * seconds,
                      .demand = noisy(truth.demand),
                      .local_samples = local,
                      .local_thread_s = noisy(local * truth.local_cpu_s),
                      .remote_samples = tried,
                      .workers_ready = ready};
    if (run.cut) {
      seen.remote_host_s = noisy(tried * truth.cuts[*run.cut].host_cpu_s);
      seen.worker_thread_s = noisy(tried * truth.cuts[*run.cut].worker_cpu_s);
    }
    if (ready > 0) seen.link_in_bytes_per_s = noisy(truth.link_in_bytes_per_s);
    most_ready_ = std::max(most_ready_, ready);  // who worked once is known
    for (std::size_t i = 0; i < std::min<std::size_t>(most_ready_, truth.worker_speeds.size()); ++i)
      seen.worker_speeds.push_back(truth.worker_speeds[i]);
    return seen;
  }

 private:
  double noisy(double value) { return value * std::max(0.05, 1 + noise * normal_(random_)); }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::vector<double> up_at_;
  std::uint32_t asked_ = 0, most_ready_ = 0;
};

inline constexpr Prices kPrices{.host_per_hour = 5, .worker_per_hour = 0.5};

// The model that the planner has: 1000 samples/s per core of the host, 8 cores here, 8 in a worker.
inline PlacementInputs planned(double demand) {
  PlacementInputs facts{.local_cpu_s = 1e-3, .cores = 8, .demand = demand, .worker_cores = 8};
  facts.cuts = {{.ops_remote = 1, .host_cpu_s = 4e-4, .worker_cpu_s = 5e-4, .bytes_in = 6e5},
                {.ops_remote = 2, .host_cpu_s = 5e-5, .worker_cpu_s = 1e-3, .bytes_in = 1.5e5}};
  return facts;
}

/// A controller in its world.
struct Trial {
  World world;
  Controller controller;
  std::uint32_t changes = 0;

  Trial(const PlacementInputs& truth, ControllerOptions options, std::uint64_t seed = 1)
      : world(truth, seed), controller(Controller::create(options).value()) {
    world.start_s = options.worker_start_s;
  }
  void go(double seconds, double step_s = 1) {
    for (double end = world.now_s + seconds; world.now_s < end - 1e-9;) {
      const Running before = decision().run;
      controller.observe(world.step(before, step_s), world.now_s);
      changes += before.workers != decision().run.workers || before.cut != decision().run.cut ? 1 : 0;
    }
  }
  const Decision& decision() const { return controller.decision(); }
  Choice best() const { return place(world.truth, kPrices, {})->choice; }
};

inline ControllerOptions options(double demand) {
  ControllerOptions made{.model = planned(demand), .prices = kPrices};
  made.model.demand = 0;  // nobody has seen the trainer yet
  return made;
}

}  // namespace carya::autotune
