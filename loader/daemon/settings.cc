#include "loader/daemon/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#define TOML_EXCEPTIONS 0
#include <fmt/core.h>
#include <toml++/toml.h>

#include "io/http/store_url.h"
#include "loader/program/http_page.h"
#include "loader/program/size_text.h"
#include "remote/fleet/dns_fleet.h"
#include "remote/protocol/address.h"

namespace carya::loader {
namespace {

// Unless the file says otherwise.
constexpr double kShareOfMemory = 0.5;
constexpr double kCacheShareOfMemory = 0.2;
constexpr std::uint64_t kDiskBytes = 100'000'000'000, kSharedBytes = 1'000'000'000'000;
constexpr double kUserWeightMin = 0.01, kUserWeightMax = 100;
constexpr std::int64_t kDescriptorsMax = 1 << 20, kDaemonsMax = 64;  // of a user
constexpr std::uint64_t kUserMemoryMin = 64 << 20;  // with less a daemon ends before it has a job

/// Reads one value; gives what is allowed when it is not that.
using Take = std::function<std::string(const toml::node&)>;

template <typename T>
Take whole(T& out, std::int64_t lowest, std::int64_t highest) {
  return [&out, lowest, highest](const toml::node& node) -> std::string {
    const auto value = node.value_exact<std::int64_t>();
    if (!value || *value < lowest || *value > highest)
      return fmt::format("an integer of {} to {}", lowest, highest);
    out = static_cast<T>(*value);
    return "";
  };
}

Take number(double& out, double highest) {
  return [&out, highest](const toml::node& node) -> std::string {
    const auto value = node.value<double>();
    if (!value || !(*value >= 0) || *value > highest)
      return fmt::format("seconds, 0 to {}", static_cast<std::int64_t>(highest));
    out = *value;
    return "";
  };
}

Take text(std::string& out) {
  return [&out](const toml::node& node) -> std::string {
    const auto value = node.value_exact<std::string>();
    if (!value) return "text";
    out = *value;
    return "";
  };
}

/// A path; "~/" begins one in the home folder of the user whose daemon this is.
Take user_file(std::string& out) {
  return [&out](const toml::node& node) -> std::string {
    const auto value = node.value_exact<std::string>();
    if (!value) return "the path of a file, or \"\" for none";
    const char* const home = getenv("HOME");
    out = value->starts_with("~/") && home != nullptr && *home != '\0' ? home + value->substr(1) : *value;
    return "";
  };
}

/// `stores`: URLs may be among them.
Take folders(std::vector<std::string>& out, bool stores = false) {
  return [&out, stores](const toml::node& node) -> std::string {
    const std::string allowed =
        stores ? "a list of absolute paths and URLs (s3://bucket)" : "a list of absolute paths";
    if (!node.is_array()) return allowed;
    out.clear();
    for (const toml::node& item : *node.as_array()) {
      const auto path = item.value_exact<std::string>();
      const bool is_store = stores && path && io::parse_store_url(*path, {});
      if (!is_store && (!path || path->empty() || path->front() != '/')) return allowed;
      out.push_back(*path);
    }
    return "";
  };
}

Take words(std::vector<std::string>& out, const std::string& allowed) {
  return [&out, allowed](const toml::node& node) -> std::string {
    if (!node.is_array()) return allowed;
    out.clear();
    for (const toml::node& item : *node.as_array()) {
      const auto word = item.value_exact<std::string>();
      if (!word || word->empty()) return allowed;
      out.push_back(*word);
    }
    return "";
  };
}

/// Whether it has the form of what a worker listens at. Names are looked up when a job needs them.
bool is_worker(const std::string& text) {
  return remote::is_worker_address(text) && remote::Address::parse(text);
}

Take workers(std::vector<std::string>& out) {
  const std::string allowed = R"(a list of addresses such as ["w1:7070", "unix:/run/worker.sock"])";
  return [&out, allowed](const toml::node& node) -> std::string {
    const std::string refused = words(out, allowed)(node);
    return refused.empty() && !std::ranges::all_of(out, is_worker) ? allowed : refused;
  };
}

/// A size, or a share of `memory_bytes`.
Take memory(std::uint64_t& out, std::uint64_t memory_bytes) {
  return [&out, memory_bytes](const toml::node& node) -> std::string {
    const auto bytes = parse_size(node.value_exact<std::string>().value_or(""), memory_bytes);
    if (!bytes) return bytes.error().message;
    out = *bytes;
    return "";
  };
}

/// A size on a disk. `none`: what "" stands for; without it "" is refused.
Take size(std::uint64_t& out, std::optional<std::uint64_t> none = {}) {
  return [&out, none](const toml::node& node) -> std::string {
    const auto given = node.value_exact<std::string>();
    if (none && given == "") return out = *none, "";
    const auto bytes = parse_size(given.value_or(""), 0);
    if (!bytes || *bytes == 0)
      return std::string("a size such as \"500GB\"") + (none ? " or \"\" for no limit" : "");
    out = *bytes;
    return "";
  };
}

Take folder_or_none(std::string& out) {
  return [&out](const toml::node& node) -> std::string {
    const auto value = node.value_exact<std::string>();
    if (!value || (!value->empty() && value->front() != '/')) return "an absolute path, or \"\" for none";
    out = *value;
    return "";
  };
}

Take dollars(double& out) {
  return [&out](const toml::node& node) -> std::string {
    const auto value = node.value<double>();
    if (!value || !(*value >= 0)) return "$ per hour, 0 or more";
    out = *value;
    return "";
  };
}

/// What reads the keys of [remote].
void add_remote_readers(std::map<std::string, Take>& readers, RemoteOptions& remote) {
  readers["remote.workers"] = workers(remote.workers);
  readers["remote.fleet_command"] =
      words(remote.fleet_command, R"(a command as a list, such as ["python3", "-m", "carya.fleet.ray"])");
  readers["remote.fleet_options"] = text(remote.fleet_options);
  readers["remote.dns"] = [&remote](const toml::node& node) -> std::string {
    const auto value = node.value_exact<std::string>();
    if (!value || (!value->empty() && !remote::parse_dns_name(*value)))
      return R"("dns://name:port" (every address of the name), "dns://name" (SRV records), or "" for none)";
    remote.dns = *value;
    return "";
  };
  readers["remote.insecure"] = [&remote](const toml::node& node) -> std::string {
    const auto value = node.value_exact<bool>();
    if (!value) return "true or false";
    remote.insecure = *value;
    return "";
  };
  readers["remote.objective"] = [&remote](const toml::node& node) -> std::string {
    const auto value = node.value_exact<std::string>();
    for (const auto objective : {autotune::Objective::kCost, autotune::Objective::kSpeed})
      if (value == autotune::objective_name(objective)) return remote.goal.objective = objective, "";
    return R"("cost" or "speed")";
  };
  readers["remote.certificate"] = user_file(remote.certificate);
  readers["remote.key"] = user_file(remote.key);
  readers["remote.authority"] = user_file(remote.authority);
  readers["remote.server_name"] = text(remote.server_name);
  readers["remote.token"] = text(remote.token);
  readers["remote.token_file"] = user_file(remote.token_file);
  readers["remote.user"] = text(remote.user);
  readers["remote.host_price"] = dollars(remote.prices.host_per_hour);
  readers["remote.worker_price"] = dollars(remote.prices.worker_per_hour);
  readers["remote.max_cost_per_hour"] = dollars(remote.goal.workers_cost_per_hour_max);
  readers["remote.verify"] = [&remote](const toml::node& node) -> std::string {
    const auto value = node.value<double>();
    if (!value || !(*value >= 0 && *value <= 1)) return "a share of 0 to 1";
    remote.verify = *value;
    return "";
  };
  readers["remote.max_workers"] = whole(remote.goal.workers_max, 0, autotune::kAnyWorkersMax);
}

/// The most of one user; "": no limit.
Take user_memory(std::uint64_t& out, std::uint64_t memory_bytes) {
  return [&out, memory_bytes](const toml::node& node) -> std::string {
    const auto text = node.value_exact<std::string>();
    if (text == "") return out = 0, "";
    const auto bytes = parse_size(text.value_or(""), memory_bytes);
    if (bytes && *bytes >= kUserMemoryMin) return out = *bytes, "";
    return (bytes ? "64MiB or more" : bytes.error().message) + std::string(", or \"\" for no limit");
  };
}

Take weight(double& out) {
  return [&out](const toml::node& node) -> std::string {
    const auto value = node.value<double>();
    if (!value || !(*value >= kUserWeightMin && *value <= kUserWeightMax))
      return fmt::format("a number of {} to {}", kUserWeightMin, kUserWeightMax);
    out = *value;
    return "";
  };
}

/// What reads each key into its field.
std::map<std::string, Take> readers_into(Settings& settings, std::uint64_t memory_bytes) {
  std::map<std::string, Take> readers{
      {"socket",
       [&settings](const toml::node& node) -> std::string {
         const auto value = node.value_exact<std::string>();
         if (!value || value->empty() || value->front() != '/') return "an absolute path";
         settings.socket = *value;
         return "";
       }},
      {"log_level",
       [&settings](const toml::node& node) -> std::string {
         const auto value = node.value_exact<std::string>();
         for (const char* allowed : {"debug", "info", "warning", "error"})
           if (value == allowed) return settings.log_level = *value, "";
         return "\"debug\", \"info\", \"warning\" or \"error\"";
       }},
      {"roots", folders(settings.limits.folders.roots, true)},
      {"cache_dirs", folders(settings.limits.folders.cache_dirs)},
      {"drain_seconds", number(settings.drain_s, 3600)},
      {"linger_seconds", number(settings.limits.linger_s, 86'400)},
      {"metrics",
       [&settings](const toml::node& node) -> std::string {
         const auto value = node.value_exact<std::string>();
         if (!value || (!value->empty() && !is_page_address(*value)))
           return std::string(kPageAddress) + ", or \"\" for none";
         settings.metrics = *value;
         return "";
       }},
      {"limits.connections", whole(settings.connections, 1, 65'536)},
      {"limits.jobs", whole(settings.limits.jobs, 1, 100'000)},
      {"limits.readers", whole(settings.limits.readers, 1, 100'000)},
      {"limits.cores", whole(settings.limits.cores, 0, kThreadsMax)},
      {"limits.threads", whole(settings.limits.threads, 0, kThreadsMax)},
      {"limits.shared_memory", memory(settings.limits.shared_bytes, memory_bytes)},
      {"cache.memory", memory(settings.limits.cache.memory_bytes, memory_bytes)},
      {"cache.disk", folder_or_none(settings.limits.cache.disk.path)},
      {"cache.disk_size", size(settings.limits.cache.disk.bytes)},
      {"cache.shared", folder_or_none(settings.limits.cache.shared.path)},
      {"cache.shared_size", size(settings.limits.cache.shared.bytes)},
      {"cache.write_budget", size(settings.limits.cache.write_bytes_per_day, WriteBudget::kNoLimit)},
      {"users.allow",
       words(settings.users.allow, R"(a list such as ["alice", "@train"], or ["*"] for everyone)")},
      {"users.weight", weight(settings.users.share.weight)},
      {"users.memory", user_memory(settings.users.share.memory_bytes, memory_bytes)},
      {"users.descriptors", whole(settings.users.share.descriptors, 0, kDescriptorsMax)},
      {"users.daemons", whole(settings.users.share.daemons, 1, kDaemonsMax)},
  };
  add_remote_readers(readers, settings.limits.remote);
  return readers;
}

/// Keys whose values are secrets, or may have some in them: a log shows none.
bool is_secret(const std::string& path) {
  return path == "remote.token" || path == "remote.fleet_options";
}

/// The value as the file has it, cut to one line of about 60 characters.
std::string shown(const toml::node& node) {
  constexpr std::size_t kShown = 60;
  std::ostringstream out;
  out << toml::node_view<const toml::node>(node);
  std::string text = std::move(out).str();
  std::ranges::replace(text, '\n', ' ');
  if (text.size() <= kShown) return text;
  text.resize(kShown);
  return text + "...";
}

std::string place(const toml::node& node, const std::string& name) {
  return fmt::format("{}:{}", name, node.source().begin.line);
}

}  // namespace

std::vector<std::string> setting_keys() {
  Settings unused;
  std::vector<std::string> names;
  for (const auto& [key, take] : readers_into(unused, 0)) names.push_back(key);
  return names;
}

namespace {

/// Reads the tables of one file.
class Reader {
 public:
  Reader(const std::string& name, std::uint64_t memory_bytes) : name_(name), memory_bytes_(memory_bytes) {}

  /// All keys of a file but those of [user.NAME], whose tables are left to read_user().
  Status read(const toml::table& file, Settings& settings) const {
    const auto keys = readers_into(settings, memory_bytes_);
    for (const auto& [key, node] : file) {
      const std::string path(key.str());
      if (path == "user" && node.is_table()) continue;
      if (node.is_table() && (path == "limits" || path == "cache" || path == "remote" || path == "users")) {
        TRY(read_keys(*node.as_table(), path + ".", keys));
      } else {
        TRY(read_key(path, path, node, keys));
      }
    }
    return check_one_fleet(file, "remote.", settings.limits.remote);
  }
  /// The table of one user, whose share goes to those of all.
  Status read_user(const std::string& user, const toml::table& table, Settings& settings) const {
    auto keys = readers_into(settings, memory_bytes_);
    std::erase_if(keys, [](const auto& entry) {
      const std::string& key = entry.first;
      return key != "roots" && key != "cache_dirs" && !key.starts_with("limits.") &&
             !key.starts_with("cache.") && !key.starts_with("remote.");
    });
    keys.erase("limits.connections");
    UserShare own = settings.users.share;
    keys["weight"] = weight(own.weight);
    keys["memory"] = user_memory(own.memory_bytes, memory_bytes_);
    keys["descriptors"] = whole(own.descriptors, 0, kDescriptorsMax);
    keys["daemons"] = whole(own.daemons, 1, kDaemonsMax);
    for (const auto& [key, node] : table) {
      const std::string path(key.str());
      if (node.is_table() && (path == "limits" || path == "cache" || path == "remote"))
        TRY(read_keys(*node.as_table(), path + ".", keys, "user." + user + "."));
      else
        TRY(read_key(path, "user." + user + "." + path, node, keys));
    }
    settings.users.shares[user] = own;
    return check_one_fleet(table, "user." + user + ".remote.", settings.limits.remote);
  }

 private:
  using Keys = std::map<std::string, Take>;
  Status read_keys(const toml::table& table, const std::string& prefix, const Keys& keys,
                   const std::string& shown_prefix = "") const {
    for (const auto& [key, node] : table) {
      const std::string path = prefix + std::string(key.str());
      TRY(read_key(path, shown_prefix + path, node, keys));
    }
    return {};
  }
  Status read_key(const std::string& path, const std::string& shown_path, const toml::node& node,
                  const Keys& keys) const {
    const auto found = keys.find(path);
    if (found == keys.end())
      return fail(Code::kInvalidArgument, place(node, name_) + ": " + shown_path +
                                              " is no setting; see caryad(8) for those there are");
    const std::string allowed = found->second(node);
    if (allowed.empty()) return {};
    return fail(Code::kInvalidArgument, place(node, name_) + ": " + shown_path + ": got " +
                                            (is_secret(path) ? "what is no text" : shown(node)) + "; give " +
                                            allowed);
  }

  /// Workers come from one place. `table` is what was read last: the mistake is in its lines.
  Status check_one_fleet(const toml::table& table, const std::string& prefix,
                         const RemoteOptions& remote) const {
    const std::pair<const char*, bool> given[] = {{"workers", !remote.workers.empty()},
                                                  {"dns", !remote.dns.empty()},
                                                  {"fleet_command", !remote.fleet_command.empty()}};
    if (std::ranges::count_if(given, &std::pair<const char*, bool>::second) < 2) return {};
    const toml::node* last = nullptr;
    std::string key, others;
    for (const auto& [one, is_given] : given) {
      const toml::node* const node = is_given ? table["remote"][one].node() : nullptr;
      if (node == nullptr || (last != nullptr && node->source().begin.line < last->source().begin.line))
        continue;
      last = node;
      key = one;
    }
    if (last == nullptr) return {};  // said of those whose lines they are
    for (const auto& [one, is_given] : given)
      if (is_given && key != one) others += (others.empty() ? "" : " and ") + std::string(one);
    return fail(
        Code::kInvalidArgument,
        fmt::format("{}: {}{}: got {} beside {}; give one of workers, dns and fleet_command, and [] or "
                    "\"\" for the others",
                    place(*last, name_), prefix, key, shown(*last), others));
  }

  const std::string& name_;
  const std::uint64_t memory_bytes_;
};

}  // namespace

Result<Settings> parse_settings(const std::string& text, const std::string& name, std::uint64_t memory_bytes,
                                const std::vector<std::string>& user) {
  Settings settings;
  settings.limits.shared_bytes =
      static_cast<std::uint64_t>(kShareOfMemory * static_cast<double>(memory_bytes));
  settings.limits.cache = {
      .memory_bytes = static_cast<std::uint64_t>(kCacheShareOfMemory * static_cast<double>(memory_bytes)),
      .disk = {.path = "", .bytes = kDiskBytes},
      .shared = {.path = "", .bytes = kSharedBytes}};
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return fail(Code::kInvalidArgument,
                fmt::format("{}:{}: {}", name, error.source().begin.line, error.description()));
  }
  const Reader reader(name, memory_bytes);
  TRY(reader.read(parsed.table(), settings));
  const toml::table none;
  const toml::table* const users = parsed.table()["user"].as_table();
  for (const auto& [key, node] : users != nullptr ? *users : none) {
    const std::string one(key.str());
    if (!node.is_table())
      return fail(Code::kInvalidArgument,
                  place(node, name) + ": user." + one + " is no table; give [user." + one +
                      "] with a weight, memory, descriptors, daemons, limits, cache or remote");
    Settings others = settings;  // of another user: looked at for mistakes
    Settings& into = std::ranges::find(user, one) != user.end() ? settings : others;
    TRY(reader.read_user(one, *node.as_table(), into));
    settings.users.shares[one] = into.users.shares[one];
  }
  return settings;
}

Result<Settings> read_settings(const std::string& path, std::uint64_t memory_bytes,
                               const std::vector<std::string>& user) {
  std::ifstream file(path);
  if (file) file.peek();  // a folder can be opened and not be read
  if (!file.is_open() || file.bad())
    return fail_errno("caryad: configuration " + path, errno == 0 ? EIO : errno);
  std::ostringstream text;
  text << file.rdbuf();
  return parse_settings(text.str(), path, memory_bytes, user);
}

}  // namespace carya::loader
