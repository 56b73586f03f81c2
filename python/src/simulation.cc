#include "simulation.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autotune/cache/cache_choice.h"
#include "autotune/controller/controller.h"
#include "autotune/sharing/sharing.h"
#include "autotune/simulator/fleet.h"
#include "autotune/simulator/scenario.h"
#include "autotune/simulator/workload.h"
#include "errors.h"
#include "gil.h"
#include "remote/server/client_shares.h"

namespace carya::python {
namespace {

namespace py = pybind11;
namespace simulator = autotune::simulator;

// What comes in was checked and completed by carya/_simulate/scenario.py.
double number(const py::handle& part, const char* name) {
  return py::cast<double>(part[name]);
}

autotune::PlacementInputs truth_of(const py::dict& all) {
  const py::handle host = all["host"], workers = all["workers"], link = all["link"], source = all["source"];
  autotune::PlacementInputs facts{.local_cpu_s = number(host, "sample_cpu_s"),
                                  .cores = number(host, "cores"),
                                  .demand = number(all["trainer"], "samples_per_s"),
                                  .worker_cores = number(workers, "cores"),
                                  .link_in_bytes_per_s = number(link, "in_bytes_per_s"),
                                  .link_out_bytes_per_s = number(link, "out_bytes_per_s"),
                                  .source_bytes = number(source, "record_bytes"),
                                  .source_bytes_per_s = number(source, "bytes_per_s")};
  for (const py::handle cut : all["cuts"])
    facts.cuts.push_back({.ops_remote = facts.cuts.size() + 1,
                          .host_cpu_s = number(cut, "host_cpu_s"),
                          .worker_cpu_s = number(cut, "worker_cpu_s"),
                          .bytes_in = number(cut, "bytes_in"),
                          .bytes_out = number(cut, "bytes_out")});
  return facts;
}

/// What the planner assumes before it has measured.
autotune::PlacementInputs model_of(const autotune::PlacementInputs& truth, const py::handle& assumed) {
  autotune::PlacementInputs model = truth;
  model.demand = model.link_in_bytes_per_s = model.link_out_bytes_per_s = model.source_bytes_per_s = 0;
  model.local_cpu_s *= number(assumed, "host");
  for (autotune::RemoteCut& cut : model.cuts) cut.worker_cpu_s *= number(assumed, "workers");
  return model;
}

simulator::Scenario scenario_of(const py::dict& all) {
  const py::handle workers = all["workers"];
  simulator::Scenario made;
  made.world = {
      .truth = truth_of(all),
      .prices = {.host_per_hour = number(all["host"], "price"), .worker_per_hour = number(workers, "price")},
      .fleet = {.start_s = number(workers, "start_s"),
                .billed_s_min = number(workers, "billed_s_min"),
                .size = py::cast<std::uint32_t>(workers["max"]),
                .fails_per_hour = number(workers, "fails_per_hour")},
      .noise = number(all, "noise"),
      .scaling_loss = number(workers, "scaling_loss"),
      .seed = py::cast<std::uint64_t>(all["seed"])};
  made.model = model_of(made.world.truth, all["assumed"]);
  made.goal.workers_max = made.world.fleet.size;
  made.horizon_s = number(all, "hours") * 3600;
  for (const py::handle event : all["events"])
    made.events.push_back({.at_s = number(event, "at_s"),
                           .kind = static_cast<simulator::Event::Kind>(py::cast<int>(event["kind"])),
                           .factor = number(event, "factor")});
  return made;
}

py::list moments_of(const std::vector<simulator::Moment>& moments) {
  py::list all;
  for (const simulator::Moment& one : moments)
    all.append(py::make_tuple(one.at_s, one.workers, one.cost_per_sample));
  return all;
}

py::dict line_of(const char* policy, const simulator::Outcome& outcome) {
  py::dict line;
  line["policy"] = policy;
  line["workers"] = outcome.moments.empty() ? 0 : outcome.moments.back().workers;
  line["changes"] = outcome.changes;
  line["settled_s"] = outcome.settled_s;
  line["samples"] = outcome.bill.samples;
  line["cost_host"] = outcome.bill.host;
  line["cost_workers"] = outcome.bill.workers;
  line["cost_per_sample"] = outcome.cost_per_sample();
  line["stall_s"] = outcome.bill.stall_s;
  line["moments"] = moments_of(outcome.moments);
  return line;
}

py::list simulate(const py::dict& wanted, py::object progress) {
  const simulator::Scenario scenario = scenario_of(wanted);
  auto call = std::make_shared<ProgressCall>(std::move(progress));
  double before_s = 0;  // of the policies that are done
  const simulator::Watch watch = [&](double now_s) {
    return (*call)(static_cast<std::uint64_t>(before_s + now_s));
  };
  py::list lines;
  const auto add = [&](const char* name, auto play) {
    auto outcome = [&] {
      const WithoutGil unlocked;
      return play();
    }();
    call->rethrow();
    before_s += scenario.horizon_s;
    lines.append(line_of(name, outcome));
  };
  add("all local", [&] { return simulator::play_local(scenario, watch); });
  auto ours = [&] {
    const WithoutGil unlocked;
    return simulator::try_ours(scenario, watch);
  }();
  call->rethrow();
  before_s += scenario.horizon_s;
  lines.append(line_of("Carya", unwrap(std::move(ours))));
  add("oracle", [&] { return simulator::play_oracle(scenario, watch); });
  return lines;
}

py::list simulate_pecan(double epochs, std::uint64_t seed, py::object progress) {
  ProgressCall call(std::move(progress));
  py::list all;
  std::uint64_t done = 0;
  for (const simulator::Workload& workload : simulator::workloads()) {
    py::dict one;
    one["workload"] = std::string(workload.name);
    one["published_workers"] = workload.pecan_workers;
    one["published_cost"] = workload.pecan_epoch_cost;
    one["samples_per_epoch"] = workload.samples_per_epoch;
    py::list rows;
    for (int i = 0; i <= static_cast<int>(simulator::Baseline::kOurs); ++i) {
      const auto baseline = static_cast<simulator::Baseline>(i);
      const simulator::WorkloadResult result = simulator::run_workload(workload, baseline, epochs, seed);
      py::dict row;
      row["policy"] = std::string(simulator::baseline_name(baseline));
      row["workers"] = result.last.workers;
      row["changes"] = result.changes;
      row["settled_s"] = result.converged_s;
      row["epoch_s"] = result.epoch_s;
      row["cost_last_epoch"] = result.epoch_cost;
      row["cost_per_epoch"] = result.job_cost;
      row["moments"] = moments_of(result.moments);
      rows.append(row);
      if (!call(++done)) call.rethrow();
    }
    one["policies"] = rows;
    all.append(one);
  }
  return all;
}

py::dict simulate_fleet(std::uint32_t hosts, std::uint32_t workers, std::uint32_t minutes,
                        double preempted_per_hour, std::uint64_t seed, py::object progress, bool by_weight) {
  auto call = std::make_shared<ProgressCall>(std::move(progress));
  const simulator::FleetResult result = [&] {
    const WithoutGil unlocked;
    return simulator::run_fleet({.hosts = hosts,
                                 .workers = workers,
                                 .minutes = minutes,
                                 .preempted_per_hour = preempted_per_hour,
                                 .by_weight = by_weight,
                                 .seed = seed},
                                simulator::share_rule(remote::client_shares),
                                [&](std::uint32_t minute) { return (*call)(minute); });
  }();
  call->rethrow();
  py::dict said;
  said["hosts"] = result.hosts;
  said["workers"] = result.workers;
  said["jobs"] = result.jobs;
  said["jobs_kept"] = result.jobs_kept;
  said["workers_used"] = result.workers_used;
  said["workers_most"] = result.workers_most;
  said["stall"] = result.stall;
  said["starved_s"] = result.starved_s;
  said["jain"] = result.jain;
  said["jain_limited"] = result.jain_limited;
  said["cost"] = result.cost;
  said["cost_local"] = result.cost_local;
  said["cost_best"] = result.cost_best;
  said["cost_best_money"] = result.cost_best_money;
  said["cost_best_jobs"] = result.cost_best_jobs;
  py::list users;
  for (const simulator::FleetUser& user : result.users) {
    py::dict one;
    one["weight"] = user.weight;
    one["jobs"] = user.jobs;
    one["worker_hours"] = user.worker_hours;
    one["part_hours"] = user.part_hours;
    one["limited"] = user.limited;
    one["cost"] = user.cost;
    one["cost_best"] = user.cost_best;
    one["workers"] = user.workers;
    one["part"] = user.part;
    users.append(one);
  }
  said["users"] = users;
  return said;
}

double or_zero(const py::dict& part, const char* name) {
  return part.contains(name) ? py::cast<double>(part[name]) : 0;
}

/// choose_cache() for a dictionary with the names of CacheInputs.
py::dict choose_cache(const py::dict& wanted) {
  autotune::CacheInputs facts{.sample_s = number(wanted, "sample_s"),
                              .read_s = or_zero(wanted, "read_s"),
                              .wait_s = or_zero(wanted, "wait_s"),
                              .places = {},
                              .records = number(wanted, "records"),
                              .capacity_bytes = or_zero(wanted, "capacity_bytes"),
                              .epochs_left = number(wanted, "epochs_left")};
  for (const py::handle one : wanted["places"]) {
    const auto place = py::cast<py::dict>(one);
    facts.places.push_back(
        {.at = {.ops = facts.places.size()},
         .fill_s = number(place, "fill_s"),
         .hit_s = number(place, "hit_s"),
         .bytes = number(place, "bytes"),
         .tiers = {{.capacity_bytes = place.contains("capacity_bytes") ? number(place, "capacity_bytes")
                                                                       : facts.capacity_bytes,
                    .fetch_s = or_zero(place, "fetch_s"),
                    .put_s = or_zero(place, "put_s")}}});
  }
  const autotune::CacheChoice choice = unwrap(autotune::choose_cache(facts));
  py::dict said;
  said["place"] = choice.chosen.place;
  said["share"] = choice.chosen.share;
  said["run_s"] = choice.chosen.run_s;
  py::list all;
  for (const autotune::CacheCost& one : choice.all) all.append(one.run_s);
  said["all"] = all;
  return said;
}

/// The controller of one simulated stream, which is told what was measured.
class SimulatedController {
 public:
  SimulatedController(const py::dict& model, double host_price, double worker_price,
                      std::uint32_t workers_max, double worker_start_s)
      : prices_{.host_per_hour = host_price, .worker_per_hour = worker_price},
        controller_(unwrap(autotune::Controller::create({.model = facts_of(model),
                                                         .prices = prices_,
                                                         .goal = {.workers_max = workers_max},
                                                         .worker_start_s = worker_start_s}))) {}
  py::dict observe(const py::dict& seen, double now_s) {
    controller_.observe({.seconds = number(seen, "seconds"),
                         .samples = or_zero(seen, "samples"),
                         .stall_s = or_zero(seen, "stall_s"),
                         .demand = or_zero(seen, "demand"),
                         .local_samples = or_zero(seen, "local_samples"),
                         .local_thread_s = or_zero(seen, "local_thread_s"),
                         .remote_samples = or_zero(seen, "remote_samples"),
                         .remote_host_s = or_zero(seen, "remote_host_s"),
                         .worker_thread_s = or_zero(seen, "worker_thread_s"),
                         .workers_ready = py::cast<std::uint32_t>(seen["workers_ready"])},
                        now_s);
    const autotune::Decision& decision = controller_.decision();
    py::dict said;
    said["phase"] = std::string(autotune::phase_name(decision.phase));
    said["workers"] = decision.run.workers;
    said["cores"] = decision.run.cores;
    said["why"] = decision.why;
    return said;
  }
  void set_workers_max(std::uint32_t count) { unwrap(controller_.set_goal({.workers_max = count})); }
  autotune::Claim claim(std::uint32_t workers_max) const {
    return {.facts = controller_.facts(), .prices = prices_, .goal = {.workers_max = workers_max}};
  }

 private:
  static autotune::PlacementInputs facts_of(const py::dict& model) {
    return {.local_cpu_s = number(model, "local_cpu_s"),
            .cuts = {{.ops_remote = 1,
                      .host_cpu_s = number(model, "host_cpu_s"),
                      .worker_cpu_s = number(model, "worker_cpu_s")}},
            .cores = number(model, "cores"),
            .worker_cores = number(model, "worker_cores")};
  }
  autotune::Prices prices_;
  autotune::Controller controller_;
};

std::vector<std::uint32_t> share_workers(const std::vector<const SimulatedController*>& jobs,
                                         std::uint32_t workers) {
  std::vector<autotune::Claim> claims;
  for (const SimulatedController* job : jobs) claims.push_back(job->claim(workers));
  return unwrap(autotune::share_workers(claims, workers));
}

}  // namespace

void bind_simulation(py::module_& module) {
  module.def("simulate", &simulate, py::arg("scenario"), py::arg("progress") = py::none());
  module.def("simulate_pecan", &simulate_pecan, py::arg("epochs"), py::arg("seed"),
             py::arg("progress") = py::none());
  module.def("simulate_fleet", &simulate_fleet, py::arg("hosts"), py::arg("workers"), py::arg("minutes"),
             py::arg("preempted_per_hour"), py::arg("seed"), py::arg("progress") = py::none(),
             py::arg("by_weight") = true);
  module.def("choose_cache", &choose_cache, py::arg("facts"));
  module.def("share_workers", &share_workers, py::arg("jobs"), py::arg("workers"));
  py::class_<SimulatedController>(module, "SimulatedController")
      .def(py::init<const py::dict&, double, double, std::uint32_t, double>(), py::arg("model"),
           py::arg("host_price"), py::arg("worker_price"), py::arg("workers_max"), py::arg("worker_start_s"))
      .def("observe", &SimulatedController::observe, py::arg("seen"), py::arg("now_s"))
      .def("set_workers_max", &SimulatedController::set_workers_max, py::arg("count"));
}

}  // namespace carya::python
