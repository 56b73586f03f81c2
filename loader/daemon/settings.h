#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "loader/daemon/job_table.h"

namespace carya::loader {

/// What caryad.toml says; packaging/caryad.toml explains each key.
struct Settings {
  std::string socket;  ///< "": default_socket_path()
  std::string log_level = "info";
  double drain_s = 4;
  std::uint64_t connections = 512;
  std::string metrics;  ///< where pages for Prometheus are; "": nowhere
  JobLimits limits;

  bool operator==(const Settings&) const = default;
};

/// Every key a file may have, "limits.jobs" for one of a table.
std::vector<std::string> setting_keys();

/// The settings of a file; keys that are missing keep their default. A shared_memory of "50%" is a share of
/// `memory_bytes`. Errors: kNotFound, kPermission; kInvalidArgument with the line, the key and what is
/// allowed, also for a key that does not exist.
Result<Settings> read_settings(const std::string& path, std::uint64_t memory_bytes);
/// The same for the text of a file.
Result<Settings> parse_settings(const std::string& text, const std::string& name, std::uint64_t memory_bytes);

}  // namespace carya::loader
