#include "autotune/sharing/sharing.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <string>

namespace carya::autotune {
namespace {

constexpr double kNothing = 1e-9;
constexpr double kRounding = 1e-6;  // of cores

Status check_all(std::span<const Claim> claims) {
  for (std::size_t i = 0; i < claims.size(); ++i)
    for (const Status& status : {check(claims[i].facts), check(claims[i].prices), check(claims[i].goal)})
      if (!status) return fail(status.error().code, fmt::format("claim {}: {}", i, status.error().message));
  for (std::size_t i = 0; i < claims.size(); ++i)
    if (!(claims[i].weight > 0 && std::isfinite(claims[i].weight)))
      return fail(Code::kInvalidArgument,
                  fmt::format("claim {}: weight is {}; it must be above 0", i, claims[i].weight));
  return {};
}

/// Cores of each by weight.
std::vector<double> rights_of(std::span<const Claim> claims, std::uint32_t cores) {
  double sum = 0;
  for (const Claim& claim : claims) sum += claim.weight;
  std::vector<double> rights;
  for (const Claim& claim : claims) rights.push_back(cores * claim.weight / sum);
  return rights;
}

/// $/h that the second saves at its own rate; all that the host costs, where the first makes nothing.
double saving(const Choice& before, const Choice& after, const Claim& claim) {
  if (!(after.rate > 0)) return 0;
  if (!(before.rate > 0)) return claim.prices.host_per_hour;
  const double saved = (before.cost_per_sample - after.cost_per_sample) * after.rate * 3600;
  return saved > kNothing * before.cost_per_hour ? saved : 0;
}

/// A job with each number of cores and the workers that then pay; found when it is first asked for.
class WithCores {
 public:
  explicit WithCores(const Claim& job) : job_(job) {}
  /// $/h that the next core saves beyond `cores`, of at most `most`. Where it alone saves nothing, but several together a
  /// worker: its part of that.
  double next(std::uint32_t cores, std::uint32_t most) {
    const Choice before = at(cores);
    for (std::uint32_t more = 1; cores + more <= most; ++more) {
      const double saved = saving(before, at(cores + more), job_);
      if (saved > 0) return saved / more;
      if (before.workers == 0) break;
    }
    return 0;
  }

 private:
  const Choice& at(std::uint32_t cores) {
    while (choices_.size() <= cores) {
      PlacementInputs facts = job_.facts;
      facts.cores = std::max<double>(1, static_cast<double>(choices_.size()));
      const auto best = place(facts, job_.prices, job_.goal);
      choices_.push_back(best ? best->choice : predict(facts, job_.prices, job_.goal, std::nullopt, 0));
    }
    return choices_[cores];
  }
  const Claim& job_;
  std::vector<Choice> choices_;
};

Choice with_workers(const Claim& host, std::uint32_t workers) {
  Choice best = predict(host.facts, host.prices, host.goal, std::nullopt, 0);
  if (workers == 0) return best;
  bool found = false;
  for (std::size_t cut = 0; cut < host.facts.cuts.size(); ++cut)
    if (const Choice at = predict(host.facts, host.prices, host.goal, cut, workers);
        !found || at.rate > best.rate * (1 + kNothing))
      best = at, found = true;
  return best;
}

struct Bid {
  double saving;
  std::size_t claim;
  bool operator<(const Bid& other) const {
    return saving != other.saving ? saving < other.saving : claim > other.claim;
  }
};

/// Gives `left` units one by one to who saves most by the next; `next(claim)` says how much.
template <typename Next, typename Give>
void give_to_savers(std::size_t claims, std::uint64_t left, Next next, Give give) {
  std::priority_queue<Bid> bids;
  for (std::size_t i = 0; i < claims; ++i) bids.push({next(i), i});
  while (left > 0 && !bids.empty() && bids.top().saving > 0) {
    const std::size_t winner = bids.top().claim;
    bids.pop();
    give(winner);
    --left;
    bids.push({next(winner), winner});
  }
}

/// Some claims that have workers together.
struct Owner {
  double weight = 0;
  double given = 0;
  std::priority_queue<Bid> bids{};  // of those that save money by another one
};

/// An owner that may have the next worker: first the one that would then have fewest for its weight.
struct Turn {
  double for_weight;
  double saving;
  std::size_t owner;
  bool operator<(const Turn& other) const {
    if (for_weight != other.for_weight) return for_weight > other.for_weight;
    return saving != other.saving ? saving < other.saving : owner > other.owner;
  }
};

/// The index of each claim's owner.
std::vector<std::size_t> owners_of(std::span<const Claim> claims, std::vector<Owner>& owners) {
  std::vector<std::size_t> all;
  std::map<std::uint32_t, std::size_t> named;
  for (const Claim& claim : claims) {
    const std::size_t next = owners.size();
    const std::size_t owner = claim.owner ? named.emplace(*claim.owner, next).first->second : next;
    if (owner == next) owners.emplace_back();
    owners[owner].weight += claim.weight;
    all.push_back(owner);
  }
  return all;
}

}  // namespace

Result<std::vector<std::uint32_t>> share_threads(std::span<const Claim> jobs, std::uint32_t cores) {
  TRY(check_all(jobs));
  if (cores == 0) return fail(Code::kInvalidArgument, "share: cores is 0; it must be above 0");
  const std::vector<double> rights = rights_of(jobs, cores);
  std::vector<std::uint32_t> given(jobs.size(), 1);
  if (jobs.empty()) return given;
  std::vector<WithCores> with(jobs.begin(), jobs.end());
  std::uint64_t left = cores - std::min<std::uint64_t>(cores, jobs.size());
  const auto next = [&](std::size_t i) {
    return with[i].next(given[i], static_cast<std::uint32_t>(given[i] + left));
  };
  const auto give = [&](std::size_t i) { ++given[i], --left; };
  // Those whose right is less than the core that they have leave fewer than the others' rights are together.
  const auto in_right = [&](std::size_t i) {
    return with[i].next(given[i], static_cast<std::uint32_t>(rights[i] + kRounding));
  };
  give_to_savers(jobs.size(), left, in_right, give);
  give_to_savers(jobs.size(), left, next, give);
  for (; left > 0; --left) ++*std::ranges::min_element(given);
  for (std::size_t i = 0; i < jobs.size(); ++i)
    while (given[i] + kRounding < rights[i] && with[i].next(given[i], given[i] + 1) > 0) ++given[i];
  return given;
}

Result<std::vector<std::uint32_t>> share_workers(std::span<const Claim> hosts, std::uint32_t workers) {
  TRY(check_all(hosts));
  std::vector<std::uint32_t> given(hosts.size(), 0);
  const auto next = [&](std::size_t i) {
    if (given[i] >= hosts[i].goal.workers_max) return 0.0;
    return saving(with_workers(hosts[i], given[i]), with_workers(hosts[i], given[i] + 1), hosts[i]);
  };
  std::vector<Owner> owners;
  const std::vector<std::size_t> owner_of = owners_of(hosts, owners);
  std::vector<std::size_t> gain;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (next(i) > 0) gain.push_back(i);
  const bool one_each = gain.size() <= workers;
  std::size_t left = one_each ? workers - gain.size() : workers;
  for (const std::size_t i : gain) {
    if (one_each) given[i] = 1, ++owners[owner_of[i]].given;
    owners[owner_of[i]].bids.push({next(i), i});
  }
  std::priority_queue<Turn> turns;
  const auto ask = [&](std::size_t owner) {
    const Owner& its = owners[owner];
    if (its.bids.empty() || !(its.bids.top().saving > 0)) return;
    turns.push({(its.given + 1) / its.weight, its.bids.top().saving, owner});
  };
  for (std::size_t owner = 0; owner < owners.size(); ++owner) ask(owner);
  for (; left > 0 && !turns.empty(); --left) {
    const std::size_t owner = turns.top().owner;
    turns.pop();
    const std::size_t winner = owners[owner].bids.top().claim;
    owners[owner].bids.pop();
    ++given[winner], ++owners[owner].given;
    owners[owner].bids.push({next(winner), winner});
    ask(owner);
  }
  return given;
}

double worth_of_worker(const Claim& host, std::uint32_t workers) {
  const std::uint32_t last = std::max(1U, workers);
  return saving(with_workers(host, last - 1), with_workers(host, last), host);
}

}  // namespace carya::autotune
