#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/faults/host.h"

namespace carya::faults {

using Random = std::mt19937_64;

/// A rank that felt a fault: its time to recover runs from `since_ns` to its first batch of at least so many
/// re-attachments.
struct Affected {
  std::uint64_t rank = 0;
  std::int64_t since_ns = 0;
  std::uint64_t reattached = 0;
};

struct FaultKind {
  const char* name;
  /// Does it, and sees that it took effect. Everything that it ended runs again when it returns. Errors: it
  /// had no effect, or what the product must not do.
  Result<std::vector<Affected>> (*inject)(Host&, Random&);
  /// Whether this machine lets us; none: everywhere. Errors: kUnsupported, with what is missing.
  Status (*allowed)() = nullptr;
};

std::span<const FaultKind> fault_kinds();

/// Every rank, with how often it will have attached: `more` times than now.
std::vector<Affected> all_ranks(const Host& host, std::int64_t since_ns, std::uint64_t more);

/// What happens to the machine below the processes. (machine_faults.cc)
namespace machine {
/// The time of day jumps by hours to years, on or back, and stays there.
Result<std::vector<Affected>> jump_clock(Host& host, Random& random);
/// The daemon's cgroup has little memory left, and jobs come that want more.
Result<std::vector<Affected>> fill_memory(Host& host, Random& random);
Status may_limit_memory();
}  // namespace machine

/// Clients that misbehave; each gives how many of its doings the daemon answered or ended.
/// (hostile_client.cc)
namespace hostile {
Result<std::uint64_t> send_garbage(const std::string& socket, Random& random);
Result<std::uint64_t> send_half_messages(const std::string& socket, Random& random);
Result<std::uint64_t> flood_connections(const std::string& socket, Random& random);
Result<std::uint64_t> send_wrong_descriptors(const std::string& socket, Random& random);
}  // namespace hostile

}  // namespace carya::faults
