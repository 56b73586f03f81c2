#include "autotune/simulator/world.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/det_math.h"

namespace carya::autotune::simulator {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kTwoPi = 6.283185307179586;

double or_infinite(double limit) {
  return limit > 0 ? limit : kInfinite;
}

double each(double available, double needed) {
  return needed > 0 ? available / needed : kInfinite;
}

}  // namespace

World::World(const WorldSpec& spec)
    : spec_(spec), random_(op_key(spec.seed, "autotune/simulator", 0), 0, 0, 0) {}

World::Flow World::flow(const Running& run, std::uint32_t ready, double part) const {
  const PlacementInputs& truth = spec_.truth;
  const double cores = std::min(run.cores, truth.cores);
  double wanted = or_infinite(truth.demand);
  wanted = std::min(wanted, each(or_infinite(truth.source_bytes_per_s), truth.source_bytes));
  const double alone = cores / truth.local_cpu_s;
  if (!run.cut || ready == 0 || alone >= wanted) return {std::min(alone, wanted), 0, false};
  const RemoteCut& cut = truth.cuts[*run.cut];
  const double together = ready / (1 + spec_.scaling_loss * (ready - 1));
  const double made = together * part * truth.worker_cores / cut.worker_cpu_s;
  const double carried = std::min(each(or_infinite(truth.link_in_bytes_per_s), cut.bytes_in),
                                  each(or_infinite(truth.link_out_bytes_per_s), cut.bytes_out));
  // What comes is received; cores that are left make the rest.
  const double most = std::min({made, carried, each(cores, cut.host_cpu_s)});
  const auto whole = [&](double remote) {
    return remote + std::max(0.0, cores - remote * cut.host_cpu_s) / truth.local_cpu_s;
  };
  if (whole(most) <= alone) return {alone, 0, false};
  if (whole(most) <= wanted) return {whole(most), most, carried <= made};
  const double share = (wanted - alone) / (whole(most) - alone);  // linear between all local and most remote
  return {wanted, share * most, false};
}

Moment World::moment(const Running& run, std::uint32_t ready) const {
  const double per_hour = spec_.prices.host_per_hour + run.workers * spec_.prices.worker_per_hour;
  return {now_s_, run.workers, per_hour / kSecondsPerHour / rate(run, ready)};
}

double World::workers_busy(const Running& run) const {
  if (!run.cut || run.workers == 0) return 0;
  const double slower = 1 + spec_.scaling_loss * (run.workers - 1);
  return flow(run, run.workers, 1).remote * slower * spec_.truth.cuts[*run.cut].worker_cpu_s /
         spec_.truth.worker_cores;
}

World::Worker World::new_worker() {
  const double life = spec_.fleet.fails_per_hour > 0
                          ? -det_log(1 - random_.next_double()) * kSecondsPerHour / spec_.fleet.fails_per_hour
                          : kInfinite;
  const double up = now_s_ + spec_.fleet.start_s;
  return {now_s_, up, up + life};
}

void World::scale(std::uint32_t workers) {
  const std::size_t wanted = std::min(workers, spec_.fleet.size);
  while (workers_.size() < wanted) workers_.push_back(new_worker());
  while (workers_.size() > wanted) {
    const auto oldest = workers_.begin();
    const double unpaid = spec_.fleet.billed_s_min - (now_s_ - oldest->asked_s);
    bill_.workers +=
        std::max(0.0, unpaid) * spec_.fleet.paid * spec_.prices.worker_per_hour / kSecondsPerHour;
    workers_.erase(oldest);
  }
}

std::uint32_t World::ready_workers() {
  std::uint32_t ready = 0;
  for (Worker& worker : workers_) {
    if (worker.fails_s <= now_s_) {
      const double asked = worker.asked_s;
      worker = new_worker();
      worker.asked_s = asked;  // its minimum runs on
    }
    ready += worker.up_s <= now_s_ ? 1 : 0;
  }
  return ready;
}

void World::lose_all_workers() {
  for (Worker& worker : workers_) worker.fails_s = now_s_;
}

std::uint32_t World::paid_workers() const {
  return static_cast<std::uint32_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [this](const Worker& one) { return now_s_ - one.asked_s < spec_.fleet.billed_s_min; }));
}

void World::close() {
  scale(0);
}

double World::noisy(double value) {
  if (spec_.noise <= 0 || value <= 0) return value;
  const double radius = std::sqrt(-2 * det_log(1 - random_.next_double()));
  const double z = radius * det_cos(kTwoPi * random_.next_double());
  return value * std::max(0.05, 1 + spec_.noise * z);
}

Measurements World::step(const Running& run, double seconds) {
  scale(run.workers);
  const std::uint32_t ready = ready_workers();
  const PlacementInputs& truth = spec_.truth;
  const Flow now = flow(run, ready, spec_.fleet.part);
  const double demand = truth.demand;
  const double stall_s = demand > 0 ? seconds * std::max(0.0, 1 - now.rate / demand) : 0;
  now_s_ += seconds;
  bill_.host += spec_.prices.host_per_hour * seconds / kSecondsPerHour;
  const double paid = static_cast<double>(workers_.size()) * spec_.fleet.paid;
  bill_.workers += paid * spec_.prices.worker_per_hour * seconds / kSecondsPerHour;
  bill_.samples += now.rate * seconds;
  bill_.stall_s += stall_s;
  const double local = (now.rate - now.remote) * seconds;
  Measurements seen{.seconds = seconds,
                    .samples = noisy(now.rate * seconds),
                    .stall_s = stall_s,
                    .demand = noisy(demand),
                    .local_samples = local,
                    .local_thread_s = noisy(local * truth.local_cpu_s),
                    .workers_ready = ready};
  if (ready > 0 && run.cut) {
    const RemoteCut& cut = truth.cuts[*run.cut];
    seen.remote_samples = std::max(now.remote * seconds, 1.0);  // a first worker gets chunks in any case
    seen.remote_host_s = noisy(seen.remote_samples * cut.host_cpu_s);
    seen.worker_thread_s = noisy(seen.remote_samples * cut.worker_cpu_s);
    if (truth.link_in_bytes_per_s > 0) seen.link_in_bytes_per_s = noisy(truth.link_in_bytes_per_s);
    if (truth.link_out_bytes_per_s > 0) seen.link_out_bytes_per_s = noisy(truth.link_out_bytes_per_s);
  }
  if (truth.source_bytes_per_s > 0) seen.source_bytes_per_s = noisy(truth.source_bytes_per_s);
  return seen;
}

}  // namespace carya::autotune::simulator
