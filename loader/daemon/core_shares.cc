#include "loader/daemon/core_shares.h"

#include <algorithm>
#include <utility>

namespace carya::loader {
namespace {

/// Workers for those that may use some; what saves nobody money goes to who has fewest.
Status share_workers(const std::vector<CoreShares::Bidder>& bidders,
                     const std::vector<autotune::Claim>& claims, bool counted,
                     std::vector<CoreShares::Share>& shares) {
  std::vector<std::size_t> who;
  std::vector<autotune::Claim> theirs;
  std::uint32_t workers = 0;
  for (std::size_t i = 0; i < bidders.size(); ++i) {
    if (bidders[i].workers == 0) continue;
    who.push_back(i);
    theirs.push_back(claims[i]);
    theirs.back().facts.cores = shares[i].threads;
    workers = std::max(workers, bidders[i].workers);
  }
  if (who.empty()) return {};
  ASSIGN(std::vector<std::uint32_t> given, autotune::share_workers(theirs, workers));
  for (const std::uint32_t some : given) workers -= some;
  for (; workers > 0; --workers) ++*std::ranges::min_element(given);
  for (std::size_t i = 0; i < who.size(); ++i)
    shares[who[i]].workers = counted ? given[i] : std::max(1U, given[i]);
  return {};
}

}  // namespace

std::optional<std::vector<CoreShares::Share>> CoreShares::look(const std::vector<Bidder>& bidders,
                                                               std::uint32_t cores) {
  std::vector<const void*> who;
  std::vector<autotune::Claim> claims;
  for (const Bidder& bidder : bidders) {
    who.push_back(bidder.who);
    claims.push_back(bidder.claim);
    if (!(claims.back().prices.host_per_hour > 0)) claims.back().prices.host_per_hour = 1;
  }
  const auto threads = autotune::share_threads(claims, cores);
  if (!threads) return std::nullopt;  // what is measured is above 0: they stay as they are
  std::vector<Share> found;
  for (const std::uint32_t some : *threads) found.push_back({.threads = some});
  if (!share_workers(bidders, claims, counted_, found)) return std::nullopt;
  if (who == who_ && cores == cores_) {
    times_ = found == found_ ? times_ + 1 : 1;
    found_ = found;
    if (times_ < kSame || found_ == shares_) return std::nullopt;
  }
  who_ = std::move(who);
  cores_ = cores;
  times_ = 0;
  found_ = shares_ = std::move(found);
  return shares_;
}

}  // namespace carya::loader
