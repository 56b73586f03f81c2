#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autotune/placement/placement.h"

namespace carya::loader {

/// Workers that a stream may use, and what it costs to.
struct RemoteOptions {
  std::vector<std::string> workers{};  ///< "host:port", "[::1]:port", "unix:/path"
  // Or a fleet (remote/fleet/fleet.h): a name, "dns://name:port"; or a child process, with what it is told.
  std::string dns{};
  std::vector<std::string> fleet_command{};
  std::string fleet_options = "{}";
  // TLS: PEM files of this host, all three or none.
  std::string certificate{};
  std::string key{};
  std::string authority{};    ///< that signs the workers' certificates
  std::string server_name{};  ///< that their certificates must have; "": the host that was given
  bool insecure = false;      ///< plain TCP also to other machines
  std::string token{};        ///< for meshes that do TLS themselves; "": none
  autotune::Prices prices{};  ///< both 0: what a worker costs beside the host is not known
  autotune::PlacementGoal goal{};
  double worker_start_s = 1;       ///< from asking for a worker until it works
  double worker_billed_s_min = 0;  ///< that is paid for every worker, however short it works
  /// Share of the chunks that come home which are computed here too, and compared; which ones is secret.
  double verify = 0.01;
  double look_every_s = 1;  ///< between two decisions; in this process only
  /// Not decided but kept: so many workers (0: all local), and where the plan is cut, in ops that they run.
  std::optional<std::uint32_t> workers_fixed{};
  std::optional<std::uint64_t> cut_fixed{};

  bool operator==(const RemoteOptions&) const = default;
};

}  // namespace carya::loader
