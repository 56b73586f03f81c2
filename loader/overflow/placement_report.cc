#include "loader/overflow/placement_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace carya::loader {
namespace {

using Json = nlohmann::json;

constexpr double kMicro = 1e6;

// Numbers that are not known or without a bound are null.
Json figure(double value) {
  return std::isfinite(value) && value > 0 ? Json(value) : Json(nullptr);
}

Json cut_of(const std::vector<std::string>& op_names, const autotune::RemoteCut& cut) {
  const std::size_t count = std::min(cut.ops_remote, op_names.size());
  const std::vector<std::string> ops(op_names.begin(), op_names.begin() + static_cast<std::ptrdiff_t>(count));
  return {{"ops_remote", cut.ops_remote},       {"ops", ops},
          {"bytes_in", cut.bytes_in},           {"bytes_out", cut.bytes_out},
          {"host_us", cut.host_cpu_s * kMicro}, {"worker_us", cut.worker_cpu_s * kMicro}};
}

Json choice_of(const autotune::PlacementInputs& facts, const autotune::Choice& choice) {
  const bool cut = choice.cut && *choice.cut < facts.cuts.size() && choice.workers > 0;
  return {{"workers", choice.workers},
          {"ops_remote", cut ? Json(facts.cuts[*choice.cut].ops_remote) : Json(nullptr)},
          {"cores", choice.cores},
          {"remote_share", choice.remote_share},
          {"samples_per_s", figure(choice.rate)},
          {"stall_share", choice.stall},
          {"cost_per_hour", choice.cost_per_hour},
          {"cost_per_million",
           std::isfinite(choice.cost_per_sample) ? Json(choice.cost_per_sample * 1e6) : Json(nullptr)},
          {"limit", autotune::limit_name(choice.limit)}};
}

const char* state_name(remote::WorkerStats::State state) {
  using State = remote::WorkerStats::State;
  switch (state) {
    case State::kDown:
      return "down";
    case State::kConnecting:
      return "connecting";
    case State::kUp:
      return "up";
    case State::kDraining:
      return "draining";
    case State::kParked:
      return "parked";
    case State::kExpelled:
      return "expelled";
  }
  return "";
}

Json worker_of(const remote::WorkerStats& worker) {
  return {{"address", worker.address},
          {"state", state_name(worker.state)},
          {"connection", worker.kind},
          {"chunks", worker.results},
          {"failed", worker.failed},
          {"lost", worker.lost},
          {"hedged", worker.withdrawn},
          {"in_flight", worker.in_flight.requests},
          {"credits", worker.window.requests},
          {"free", worker.free},
          {"received_bytes", worker.received_bytes},
          {"sent_bytes", worker.sent_bytes},
          {"chunks_per_s", worker.results_per_s},
          {"bytes_per_s", worker.bytes_per_s},
          {"round_trip_ms", figure(worker.round_trip_s * 1e3)},
          {"p50_ms", figure(worker.p50_s * 1e3)},
          {"p99_ms", figure(worker.p99_s * 1e3)},
          {"reason", worker.reason}};
}

}  // namespace

std::string to_json(const PlacementReport& said) {
  Json workers = Json::array();
  for (const remote::WorkerStats& worker : said.workers) workers.push_back(worker_of(worker));
  Json report{{"workers", std::move(workers)},
              {"events", said.events},
              {"objective", autotune::objective_name(said.objective)},
              {"prices", {{"host", said.prices.host_per_hour}, {"worker", said.prices.worker_per_hour}}},
              {"fixed", said.fixed},
              {"trouble", said.trouble},
              {"pipeline", said.pipeline},
              {"phase", said.phase},
              {"why", said.why}};
  if (said.decided) {
    const PlacementReport::Decided& known = *said.decided;
    const autotune::PlacementInputs& facts = known.facts;
    report["choice"] = choice_of(facts, known.choice);
    report["running"] = {{"workers", known.workers},
                         {"workers_ready", known.measured.workers_ready},
                         {"cores", known.cores},
                         {"ops_remote", known.ops_remote}};
    if (known.earlier)
      report["earlier"] = {{"workers", known.earlier->workers}, {"ops_remote", known.earlier->ops_remote}};
    report["changes"] = known.changes;
    report["confidence"] = known.confidence;
    report["looks_again_in_s"] = known.looks_again_in_s;
    report["demand_per_s"] = figure(facts.demand);
    report["local_per_s"] = figure(facts.cores / facts.local_cpu_s);
    report["local_us"] = facts.local_cpu_s * kMicro;
    report["cores"] = facts.cores;
    report["worker_cores"] = facts.worker_cores;
    report["worker_speeds"] = facts.worker_speeds;
    report["link_in_bytes_per_s"] = figure(facts.link_in_bytes_per_s);
    report["link_out_bytes_per_s"] = figure(facts.link_out_bytes_per_s);
    report["source_bytes_per_s"] = figure(facts.source_bytes_per_s);
    const autotune::Measurements& last = known.measured;
    report["measured"] = {{"samples_per_s", last.seconds > 0 ? last.samples / last.seconds : 0},
                          {"remote_samples_per_s", last.seconds > 0 ? last.remote_samples / last.seconds : 0},
                          {"stall_share", last.seconds > 0 ? last.stall_s / last.seconds : 0}};
    report["cuts"] = Json::array();
    for (const autotune::RemoteCut& cut : facts.cuts) report["cuts"].push_back(cut_of(known.op_names, cut));
    report["beside"] = Json::array();
    for (const autotune::Neighbour& beside : known.neighbours) {
      Json one = choice_of(facts, beside.choice);
      one["name"] = beside.name;
      one["why"] = beside.why;
      report["beside"].push_back(std::move(one));
    }
    report["order"] = known.order;
    report["bill"] = {{"seconds", known.seconds},
                      {"host", known.bill.host},
                      {"workers", known.bill.workers},
                      {"all_local", known.bill.all_local},
                      {"all_remote", known.bill.all_remote}};
  }
  return report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace carya::loader
