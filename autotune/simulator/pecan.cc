#include <algorithm>
#include <cmath>
#include <utility>

#include "autotune/simulator/policy.h"

namespace carya::autotune::simulator {
namespace {

// Source: reference of Pecan and Cachew, 1.2 and 1.3.
constexpr double kInterval = 500;        // BATCH_INTERVAL, elements
constexpr double kEpochStart = 200;      // EPOCH_START_BUFFER_INTERVAL
constexpr double kRescale = 150;         // RESCALE_BUFFER_INTERVAL
constexpr std::size_t kHistoryMax = 20;  // kMaxClientMetricsHistory
constexpr double kUp = 0.03;             // scaling_threshold_up
constexpr double kDecreaseTolerance = 0.10;
constexpr double kUnstable = 1.3;

}  // namespace

PecanPolicy::PecanPolicy(const PecanOptions& options) : options_(options), discard_(kEpochStart) {}

Running PecanPolicy::run() const {
  return {.cut = options_.cut, .workers = remote_, .cores = static_cast<double>(local_)};
}

void PecanPolicy::observe(const Measurements& seen, double now_s) {
  if (seen.workers_ready != remote_ ||
      now_s < gone_s_) {  // targets are met first; what is buffered then is left out
    discard_ = std::max(discard_, kRescale);
    elements_ = seconds_ = 0;
    return;
  }
  const double elements = seen.samples / options_.element_samples;
  if (discard_ > 0) {
    discard_ -= elements;
    return;
  }
  elements_ += elements;
  seconds_ += seen.seconds;
  if (elements_ < kInterval) return;
  const Report now{remote_, local_, seconds_ * kInterval / elements_};
  report(now);
  if (remote_ != now.remote || local_ != now.local) discard_ = kRescale;
  if (remote_ < now.remote) gone_s_ = now_s + options_.remove_s;
  elements_ = seconds_ = 0;
}

void PecanPolicy::report(const Report& now) {
  ++reports_;
  const auto before = std::find_if(history_.rbegin(), history_.rend(), [&now](const Report& old) {
    return old.remote != now.remote || old.local != now.local;
  });
  const bool first = history_.empty();
  const bool has_last = before != history_.rend();
  const Report last = has_last ? *before : now;
  history_.push_back(now);
  if (history_.size() > kHistoryMax) history_.pop_front();
  if (first) remote_ += 1;
  if (first || !has_last || state_ == State::kStable) return;
  const double better = 1 - now.seconds / last.seconds;
  if (std::abs(better) > kUnstable) return;
  if (state_ == State::kOnlyRemote)
    only_remote(now, last, better);
  else if (state_ == State::kIncreasingLocal)
    increasing_local(now, better);
  else
    decreasing_remote(now, better);
}

void PecanPolicy::only_remote(const Report& now, const Report& before, double better) {
  if (better > kUp && now.remote < options_.remote_max) {
    remote_ = now.remote + 1;
    return;
  }
  remote_ = now.remote == options_.remote_max && better > kUp ? options_.remote_max : before.remote;
  init_ = 0;
  state_ = options_.local_max == 0 ? State::kStable : State::kIncreasingLocal;
  if (options_.local_max > 0) local_ = before.local + 1;
}

void PecanPolicy::increasing_local(const Report& now, double better) {
  const bool hurts = better < -kDecreaseTolerance;
  if (!hurts && now.local < options_.local_max) {
    local_ = now.local + 1;
    return;
  }
  local_ = hurts ? now.local - 1 : now.local;
  remote_ = now.remote;
  if (local_ == init_ || remote_ == 0) {
    state_ = State::kStable;
    return;
  }
  init_ = remote_;
  remote_ -= 1;
  state_ = State::kDecreasingRemote;
}

void PecanPolicy::decreasing_remote(const Report& now, double better) {
  const double worker = options_.prices.worker_per_hour;
  const bool worth = worker > -better * (options_.prices.host_per_hour + now.remote * worker);
  if (worth && now.remote > 0) {
    remote_ = now.remote - 1;
    return;
  }
  remote_ = worth ? now.remote : now.remote + 1;
  if (remote_ == init_ || now.local >= options_.local_max) {
    state_ = State::kStable;
    return;
  }
  state_ = State::kIncreasingLocal;
  init_ = now.local;
  local_ = now.local + 1;
}

}  // namespace carya::autotune::simulator
