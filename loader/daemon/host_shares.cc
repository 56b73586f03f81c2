#include "loader/daemon/host_shares.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "loader/daemon/job_table.h"

namespace carya::loader {

std::uint32_t workers_allowed(const RemoteOptions& configured) {
  std::uint32_t allowed = configured.goal.workers_max;
  const double price = configured.prices.worker_per_hour;
  const double dollars = configured.goal.workers_cost_per_hour_max;
  if (price > 0 && dollars < price * allowed)
    allowed = static_cast<std::uint32_t>(std::floor(dollars / price + 1e-9));
  return allowed;
}

void HostShares::look(const std::map<std::string, std::shared_ptr<HostJob>>& jobs,
                      const RemoteOptions& configured, std::uint32_t cores) {
  const auto is_read = [](const auto& entry) {
    return entry.second.running && !entry.second.members.empty();
  };
  const std::uint32_t allowed = workers_allowed(configured);
  std::vector<std::shared_ptr<LocalStream>> streams, with_workers;
  std::vector<CoreShares::Bidder> bidders, for_workers;
  std::uint32_t number = 0;
  for (const auto& [name, job] : jobs) {
    ++number;
    const auto ranks = static_cast<double>(std::ranges::count_if(job->ranks, is_read));
    for (const auto& entry : job->ranks) {
      const HostRank& rank = entry.second;
      if (!is_read(entry)) continue;
      autotune::Claim claim = rank.stream->claim();
      claim.prices = configured.prices;
      claim.weight = rank.options.weight / ranks;  // they share what the job's weight gives
      claim.owner = number;
      if (rank.stream->may_have_workers()) {
        rank.stream->set_worker_weight(claim.weight);
        with_workers.push_back(rank.stream);
        for_workers.push_back({rank.stream.get(), claim, allowed});
      }
      if (!rank.threads_auto) continue;
      streams.push_back(rank.stream);
      bidders.push_back({rank.stream.get(), std::move(claim), rank.stream->workers_of(configured)});
    }
  }
  const auto shares = shares_.look(bidders, cores);
  for (std::size_t i = 0; shares && i < streams.size(); ++i)
    streams[i]->set_share((*shares)[i].threads, (*shares)[i].workers);
  const auto counted = allowed_.look(for_workers, cores);
  for (std::size_t i = 0; counted && i < with_workers.size(); ++i)
    with_workers[i]->set_workers_allowed((*counted)[i].workers);
}

}  // namespace carya::loader
