#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "loader/daemon/job_table.h"
#include "loader/users/user_groups.h"

namespace carya::loader {

/// Whom a daemon of all users serves ([users] and [user.NAME] of caryad.toml).
struct UserSettings {
  std::vector<std::string> allow{"*"};  ///< users, "@group", "*"
  UserShare share{};                    ///< of each user's processes, beside those of the others
  std::map<std::string, UserShare> shares{};

  bool operator==(const UserSettings&) const = default;
};

/// What caryad.toml says; packaging/caryad.toml explains each key.
struct Settings {
  std::string socket;  ///< "": default_socket_path()
  std::string log_level = "info";
  double drain_s = 4;
  std::uint64_t connections = 512;
  std::string metrics;  ///< where pages for Prometheus are; "": nowhere
  JobLimits limits;
  UserSettings users;

  bool operator==(const Settings&) const = default;
};

/// Every key a file may have, "limits.jobs" for one of a table.
std::vector<std::string> setting_keys();

/// The settings of a file; keys that are missing keep their default. A shared_memory of "50%" is a share of
/// `memory_bytes`. A table [user.NAME] counts where NAME is one of `user`: the user's name, and number as text. Errors:
/// kNotFound, kPermission; kInvalidArgument with the line, the key and what is allowed, also for a key that does not
/// exist.
Result<Settings> read_settings(const std::string& path, std::uint64_t memory_bytes,
                               const std::vector<std::string>& user = {});
/// The same for the text of a file.
Result<Settings> parse_settings(const std::string& text, const std::string& name, std::uint64_t memory_bytes,
                                const std::vector<std::string>& user = {});

}  // namespace carya::loader
