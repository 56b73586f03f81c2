// What an overflow says of itself.
#include <cmath>
#include <nlohmann/json.hpp>

#include "loader/overflow/placement_loop.h"

namespace carya::loader {
namespace {

using Json = nlohmann::json;

constexpr double kMicro = 1e6;

// Numbers that are not known, or without bound, are null.
Json figure(double value) {
  return std::isfinite(value) && value > 0 ? Json(value) : Json(nullptr);
}

Json cut_of(const transforms::Pipeline& pipeline, const std::vector<std::size_t>& order,
            const autotune::RemoteCut& cut) {
  Json ops = Json::array();
  for (std::size_t i = 0; i < std::min(cut.ops_remote, order.size()); ++i)
    ops.push_back(pipeline.ops()[order[i]]->name());
  return {{"ops_remote", cut.ops_remote},       {"ops", std::move(ops)},
          {"bytes_in", cut.bytes_in},           {"bytes_out", cut.bytes_out},
          {"host_us", cut.host_cpu_s * kMicro}, {"worker_us", cut.worker_cpu_s * kMicro}};
}

Json choice_of(const autotune::PlacementFacts& facts, const autotune::Choice& choice) {
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

const char* state_name(remote::WorkerFigures::State state) {
  using State = remote::WorkerFigures::State;
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

Json worker_of(const remote::WorkerFigures& worker) {
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

std::string Overflow::report() const {
  Json workers = Json::array();
  const std::vector<remote::WorkerFigures> figures = crew_->figures();
  for (const remote::WorkerFigures& worker : figures) workers.push_back(worker_of(worker));
  std::optional<std::string> none = why_none(figures);
  Json events = Json::array();
  {
    const std::lock_guard lock(saying_);
    for (const std::string& line : events_) events.push_back(line);
    if (!none) none = none_;
  }
  const std::lock_guard lock(mutex_);
  Json report{
      {"workers", std::move(workers)},
      {"events", std::move(events)},
      {"objective", autotune::objective_name(options_.goal.objective)},
      {"prices", {{"host", options_.prices.host_per_hour}, {"worker", options_.prices.worker_per_hour}}},
      {"fixed", options_.workers_fixed.has_value()},
      {"trouble", !trouble_.empty() || none->empty()
                      ? trouble_
                      : "no worker is there, this machine makes all samples: " + *none},
      {"pipeline", stream_.pipeline->fingerprint(transforms::OnError::kRaise).hex()}};
  if (!controller_) {
    report["phase"] = "connecting";
    report["why"] = "waiting for the first workers to answer";
    return report.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  const autotune::Decision& decision = controller_->decision();
  const autotune::PlacementFacts facts = controller_->facts();
  // What runs, with the workers that there can be: a fixed number may be more.
  autotune::Running now = running_;
  now.workers = std::min(now.workers, goal_.workers_there);
  const autotune::Choice choice = controller_->choice_of(now);
  report["phase"] = options_.workers_fixed ? "fixed" : autotune::phase_name(decision.phase);
  report["why"] = options_.workers_fixed ? "as placement= says" : decision.why;
  report["choice"] = choice_of(facts, choice);
  report["running"] = {{"workers", running_.workers},
                       {"workers_ready", last_.workers_ready},
                       {"cores", cores_used_},
                       {"ops_remote", cut_ops_}};
  if (earlier_) report["earlier"] = {{"workers", earlier_->workers}, {"ops_remote", earlier_->ops_remote}};
  report["changes"] = decision.changes;
  report["confidence"] = decision.confidence;
  report["looks_again_in_s"] = std::max(0.0, decision.looks_again_s - now_s_);
  report["demand_per_s"] = figure(facts.demand);
  report["local_per_s"] = figure(facts.cores / facts.local_cpu_s);
  report["local_us"] = facts.local_cpu_s * kMicro;
  report["cores"] = facts.cores;
  report["worker_cores"] = facts.worker_cores;
  report["worker_speeds"] = facts.worker_speeds;
  report["link_in_bytes_per_s"] = figure(facts.link_in_bytes_per_s);
  report["link_out_bytes_per_s"] = figure(facts.link_out_bytes_per_s);
  report["source_bytes_per_s"] = figure(facts.source_bytes_per_s);
  report["measured"] = {
      {"samples_per_s", last_.seconds > 0 ? last_.samples / last_.seconds : 0},
      {"remote_samples_per_s", last_.seconds > 0 ? last_.remote_samples / last_.seconds : 0},
      {"stall_share", last_.seconds > 0 ? last_.stall_s / last_.seconds : 0}};
  report["cuts"] = Json::array();
  for (const autotune::RemoteCut& cut : facts.cuts)
    report["cuts"].push_back(cut_of(*stream_.pipeline, order_, cut));
  report["beside"] = Json::array();
  for (const autotune::Neighbour& beside : controller_->neighbours(choice)) {
    Json one = choice_of(facts, beside.choice);
    one["name"] = beside.name;
    one["why"] = beside.why;
    report["beside"].push_back(std::move(one));
  }
  report["order"] = order_;
  report["bill"] = {{"seconds", now_s_},
                    {"host", bill_.host},
                    {"workers", bill_.workers},
                    {"all_local", bill_.all_local},
                    {"all_remote", bill_.all_remote}};
  return report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace carya::loader
