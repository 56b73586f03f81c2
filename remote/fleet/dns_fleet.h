#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "remote/fleet/fleet.h"

namespace carya::remote {

/// What a "dns://" address says.
struct DnsName {
  std::string name;
  std::uint16_t port = 0;  ///< 0: SRV records tell it
};

/// "dns://name:port": every address of the name (A and AAAA records), each with this port. "dns://name": the
/// targets of the SRV records of _carya._tcp.name, or of the name itself if it begins with "_". Errors:
/// kInvalidArgument.
Result<DnsName> parse_dns_name(const std::string& text);

/// The workers that a name stands for now, sorted; takes as long as the resolver's time-outs. Errors: kIo (no
/// answer, no such name).
Result<std::vector<std::string>> look_up_workers(const DnsName& name);

/// The targets in a DNS answer with SRV records, as "target:port", those of low priority number first.
/// Errors: kCorrupt.
Result<std::vector<std::string>> read_srv_answer(std::string_view answer);

struct DnsFleetOptions {
  FleetOptions fleet{};
  std::uint64_t refresh_ms = 5000;  ///< between two lookups
  /// How a name is looked up: for tests.
  std::function<Result<std::vector<std::string>>(const DnsName&)> look_up = look_up_workers;
};

/// Workers that somebody else runs and that a name stands for, looked up again and again: those that appear
/// are used, those that disappear are left. A lookup that fails changes nothing and is logged once per
/// reason. Certificates of workers found by A and AAAA records are for the name, those by SRV records for
/// their targets. Errors: kInvalidArgument.
Result<std::unique_ptr<Fleet>> dns_fleet(const std::string& address, DnsFleetOptions options);

}  // namespace carya::remote
