#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autotune/placement/placement.h"

namespace carya::loader {

/// Workers that a stream may use, and what they cost.
struct RemoteOptions {
  std::vector<std::string> workers{};  ///< "host:port", "[::1]:port", "unix:/path"
  // Instead of `workers`, a fleet (remote/fleet/fleet.h): a name, "dns://name:port", or a child process with options.
  std::string dns{};
  std::vector<std::string> fleet_command{};
  std::string fleet_options = "{}";
  // TLS: PEM files of this host; either all three are given or none.
  std::string certificate{};
  std::string key{};
  std::string authority{};    ///< the authority that signs the workers' certificates
  std::string server_name{};  ///< the name that those certificates must have; "": the host that was given
  bool insecure = false;      ///< allow plain TCP to other machines
  std::string token{};        ///< a secret for meshes that do TLS themselves; "": none
  /// A file with that secret, in place of it, that only its owner may read; "": none. It is read when a stream begins, and
  /// holds in this process only: whoever may say this has that file's text sent to a worker.
  std::string token_file{};
  /// Whose work it is, as workers are told, who may want it proven (remote/server/user_proof.h); "": the name of the
  /// user of the process that makes the batches.
  std::string user{};
  /// Both are 0 if it is not known what a worker costs beside the host.
  autotune::Prices prices = autotune::kAssumedPrices;
  autotune::PlacementGoal goal{};
  double worker_start_s = 1;       ///< seconds from the request for a worker until the worker works
  double worker_billed_s_min = 0;  ///< seconds that are paid for every worker, however short it works
  /// The share of workers' chunks that this machine computes too and compares; which ones is secret.
  double verify = 0.01;
  double look_every_s = 1;  ///< seconds between two decisions; holds in this process only
  /// The user's choice instead of a decision: the number of workers (0: all is local), and the number of ops that
  /// workers run.
  std::optional<std::uint32_t> workers_fixed{};
  std::optional<std::uint64_t> cut_fixed{};

  bool operator==(const RemoteOptions&) const = default;
};

}  // namespace carya::loader
