#include "loader/job/outage_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "loader/program/event_field.h"

namespace carya::loader {

using Json = nlohmann::json;

void OutageLog::begin() {
  for (auto& [name, one] : subjects_) one.named = one.works = one.fails = false;
  for (auto& [key, one] : earlier_) one.named = false;
}

OutageLog::Earlier& OutageLog::earlier(std::uint64_t stream, const std::string& what) {
  Earlier& one = earlier_[{stream, what}];
  one.named = true;
  return one;
}

OutageLog::Subject& OutageLog::subject(bool is_worker, const std::string& name) {
  Subject& one = subjects_[name];
  one.is_worker = is_worker;
  one.named = true;
  return one;
}

void OutageLog::take_workers(std::uint64_t stream, const std::vector<remote::WorkerStats>& workers) {
  using State = remote::WorkerStats::State;
  for (const remote::WorkerStats& worker : workers) {
    Earlier& before = earlier(stream, std::to_string(worker.member));
    const bool ended = worker.ended > std::exchange(before.count, worker.ended);
    if (worker.state == State::kExpelled) {
      if (!std::exchange(before.fails, true))
        expelled_.push_back("worker is expelled" + field("address", worker.address) +
                            field("why", worker.reason));
      continue;
    }
    Subject& one = subject(true, worker.address);
    const bool works = worker.state == State::kUp || worker.state == State::kDraining;
    one.works |= works;
    if (works && ended) ++one.interrupted;
    if (!works && !worker.reason.empty()) one.fails = true;
    if (!worker.reason.empty() && (ended || !works)) one.why = worker.reason;
  }
}

void OutageLog::take_cache(std::uint64_t stream, const std::string& text) {
  const auto report = Json::parse(text, nullptr, false);
  if (!report.is_object()) return;
  const Json none = Json::array();
  for (const auto& tier : report.value("files", none)) {
    const std::string path = tier.value("path", "");
    const auto faults = tier.value("troubles", std::uint64_t{0});
    const std::uint64_t done =
        tier.value("fetched", std::uint64_t{0}) + tier.value("written", std::uint64_t{0});
    Earlier& before = earlier(stream, path);
    if (faults > before.count) {
      before = {.named = true, .count = faults, .done = done, .fails = true};
    } else if (done > before.done) {
      before.fails = false;
    }
    Subject& one = subject(false, path);
    one.fails |= before.fails;
    one.works = true;
    if (const auto why = tier.value("trouble", Json()); before.fails && why.is_string())
      one.why = why.get<std::string>();
  }
  for (const auto& storage : report.value("storages", none)) {
    Subject& one = subject(false, storage.value("path", ""));
    one.works = true;
    const auto why = storage.value("trouble", Json());
    if (!why.is_string()) continue;
    one.fails = true;
    one.why = why.get<std::string>();
  }
}

void OutageLog::end(std::int64_t now_ns) {
  if (!log_) return;
  std::size_t lines = 0;
  for (; !expelled_.empty() && lines < kLinesMax; ++lines) {
    log_(LogLevel::kWarning, expelled_.front());
    expelled_.erase(expelled_.begin());
  }
  for (auto& [name, one] : subjects_) {
    if (one.named) one.named_ns = now_ns;
    if (!one.works && !one.fails) continue;
    const bool away = one.fails && !(one.is_worker && one.works);
    if (away) one.interrupted = 0;
    if (away == one.said_away && one.interrupted == 0) continue;
    if (lines >= kLinesMax || (one.said_ns != 0 && now_ns - one.said_ns < kQuietNs)) continue;
    ++lines;
    one.said_ns = now_ns;
    const bool was_away = std::exchange(one.said_away, away);
    const std::uint64_t times = std::exchange(one.interrupted, 0);
    const std::string which = field(one.is_worker ? "address" : "path", name);
    if (away)
      log_(LogLevel::kWarning, (one.is_worker ? "worker is away" : "cache folder is not used for now") +
                                   which + field("why", one.why));
    else if (was_away)
      log_(LogLevel::kWarning, (one.is_worker ? "worker is back" : "cache folder is used again") + which);
    else
      log_(LogLevel::kWarning,
           "worker was away for a moment" + which + field("times", times) + field("why", one.why));
  }
  std::erase_if(subjects_, [&](const auto& entry) { return now_ns - entry.second.named_ns > kForgetNs; });
  std::erase_if(earlier_, [](const auto& entry) { return !entry.second.named; });
}

}  // namespace carya::loader
