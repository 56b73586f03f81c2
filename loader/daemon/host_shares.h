#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "loader/daemon/core_shares.h"
#include "loader/overflow/remote_options.h"

namespace carya::loader {

struct HostJob;

/// The most workers that all jobs of a daemon may have together: by number, and by what they cost.
std::uint32_t workers_allowed(const RemoteOptions& configured);

/// Shares cores and workers among the streams of all jobs that somebody reads. Threads: owner only.
class HostShares {
 public:
  /// Look, about once a second, and tell the streams. Cores and the workers of the configuration go by CoreShares; no
  /// stream gets a worker, its loader's own ones too, beyond those that are allowed to all jobs.
  void look(const std::map<std::string, std::shared_ptr<HostJob>>& jobs, const RemoteOptions& configured,
            std::uint32_t cores);

 private:
  CoreShares shares_;
  CoreShares allowed_{CoreShares::Workers::kCounted};
};

}  // namespace carya::loader
