#include "remote/fleet/dns_fleet.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <sys/socket.h>

#include <fmt/core.h>
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/mutex.h"

namespace carya::remote {
namespace {

constexpr std::string_view kPrefix = "dns://";
constexpr std::size_t kMembersMax = 10'000;
constexpr std::size_t kAnswerBytesMax = 65'536;

void unite(std::vector<std::string>& addresses) {
  std::ranges::sort(addresses);
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  if (addresses.size() > kMembersMax) addresses.resize(kMembersMax);
}

Result<std::vector<std::string>> look_up_addresses(const DnsName& name) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int refused = getaddrinfo(name.name.c_str(), nullptr, &wanted, &found);
  if (refused != 0) return fail(Code::kIo, "look up " + name.name + ": " + gai_strerror(refused));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> freed(found, freeaddrinfo);
  std::vector<std::string> addresses;
  for (; found != nullptr; found = found->ai_next) {
    char host[NI_MAXHOST];
    if (getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    const std::string number = found->ai_family == AF_INET6 ? "[" + std::string(host) + "]" : host;
    addresses.push_back(fmt::format("{}:{}", number, name.port));
  }
  unite(addresses);
  return addresses;
}

Result<std::vector<std::string>> look_up_services(const DnsName& name) {
  const std::string service = name.name.starts_with('_') ? name.name : "_carya._tcp." + name.name;
  struct __res_state state{};
  if (res_ninit(&state) != 0) return fail(Code::kIo, "look up " + service + ": no resolver");
  std::string answer(kAnswerBytesMax, '\0');
  const int bytes = res_nsearch(&state, service.c_str(), ns_c_in, ns_t_srv,
                                reinterpret_cast<unsigned char*>(answer.data()), kAnswerBytesMax);
  const int why = state.res_h_errno;
  res_nclose(&state);
  if (bytes < 0) return fail(Code::kIo, "look up SRV " + service + ": " + hstrerror(why));
  return read_srv_answer(std::string_view(answer).substr(0, static_cast<std::size_t>(bytes)));
}

class DnsFleet final : public Fleet {
 public:
  DnsFleet(DnsName name, DnsFleetOptions options) : name_(std::move(name)), options_(std::move(options)) {
    if (!options_.fleet.log) options_.fleet.log = [](const std::string&) {};
  }

  void run() override {
    MutexLock lock(mutex_);
    while (!stopped_) {
      lock.unlock();
      auto found = options_.look_up(name_);
      lock.lock();
      const std::string line = take(std::move(found));
      if (!line.empty()) {
        lock.unlock();
        options_.fleet.log(line);
        lock.lock();
      }
      const auto next = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.refresh_ms);
      while (!stopped_ && changed_.wait_until(lock, next)) {
      }
    }
  }
  void stop() override {
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
  }
  void scale(std::uint32_t count) override {
    const MutexLock lock(mutex_);
    wanted_ = count;
  }
  std::vector<std::string> members() const override {
    const MutexLock lock(mutex_);
    const auto count = std::min<std::size_t>(wanted_, members_.size());
    return {members_.begin(), members_.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  std::uint32_t most() const override {
    const MutexLock lock(mutex_);
    return static_cast<std::uint32_t>(members_.size());
  }
  double price_per_hour() const override { return options_.fleet.price_per_hour; }
  std::string server_name() const override { return name_.port > 0 ? name_.name : ""; }

 private:
  /// Those that were there already keep their order, so that scaling does not change who they are. What is
  /// to be logged.
  std::string take(Result<std::vector<std::string>> found) REQUIRES(mutex_) {
    if (!found || found->empty()) {
      const std::string why = found ? "it stands for nobody" : found.error().message;
      if (std::exchange(trouble_, why) == why) return {};
      return fmt::format("fleet dns://{}: {}; {} workers are kept", name_.name, why, members_.size());
    }
    const bool again = !std::exchange(trouble_, "").empty();
    const std::size_t before = members_.size();
    const auto gone = std::erase_if(
        members_, [&](const std::string& old) { return std::ranges::find(*found, old) == found->end(); });
    for (const std::string& address : *found)
      if (std::ranges::find(members_, address) == members_.end()) members_.push_back(address);
    if (!again && gone == 0 && members_.size() == before) return {};
    return fmt::format("fleet dns://{}: {} workers, {} new, {} gone", name_.name, members_.size(),
                       members_.size() + gone - before, gone);
  }

  const DnsName name_;
  DnsFleetOptions options_;
  mutable Mutex mutex_;
  Condition changed_;
  std::vector<std::string> members_ GUARDED_BY(mutex_);
  std::string trouble_ GUARDED_BY(mutex_);  // of the last lookup, as it was logged
  std::uint32_t wanted_ GUARDED_BY(mutex_) = UINT32_MAX;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace

Result<DnsName> parse_dns_name(const std::string& text) {
  DnsName out;
  const std::string rest = text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : "";
  out.name = rest.substr(0, rest.find(':'));
  const bool ported = out.name.size() < rest.size();
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  };
  const bool named = !out.name.empty() && out.name.size() <= 253 && std::ranges::all_of(out.name, allowed);
  if (!named || (ported && !is_worker_address(rest)))
    return fail(Code::kInvalidArgument, "workers: got \"" + text +
                                            "\"; give dns://name:port (every address of the name), or "
                                            "dns://name (SRV records of _carya._tcp.name)");
  if (ported) out.port = static_cast<std::uint16_t>(std::stoi(rest.substr(out.name.size() + 1)));
  return out;
}

Result<std::vector<std::string>> look_up_workers(const DnsName& name) {
  return name.port > 0 ? look_up_addresses(name) : look_up_services(name);
}

Result<std::vector<std::string>> read_srv_answer(std::string_view answer) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(answer.data());
  ns_msg message;
  if (ns_initparse(begin, static_cast<int>(answer.size()), &message) != 0)
    return fail(Code::kCorrupt, "DNS answer: it is no message");
  std::vector<std::pair<unsigned, std::string>> targets;  // priority first
  for (int i = 0; i < ns_msg_count(message, ns_s_an); ++i) {
    ns_rr record;
    if (ns_parserr(&message, ns_s_an, i, &record) != 0)
      return fail(Code::kCorrupt, fmt::format("DNS answer: record {} is none", i));
    if (ns_rr_type(record) != ns_t_srv) continue;
    char target[NS_MAXDNAME];
    const unsigned char* const data = ns_rr_rdata(record);
    if (ns_rr_rdlen(record) < 7 ||
        dn_expand(begin, begin + answer.size(), data + 6, target, sizeof(target)) < 0)
      return fail(Code::kCorrupt, fmt::format("DNS answer: record {} has no target", i));
    const std::string address = fmt::format("{}:{}", target, ns_get16(data + 4));
    if (is_worker_address(address)) targets.emplace_back(ns_get16(data), address);
  }
  std::ranges::sort(targets);
  std::vector<std::string> addresses;
  for (auto& [priority, address] : targets)
    if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(std::move(address));
  if (addresses.size() > kMembersMax) addresses.resize(kMembersMax);
  return addresses;
}

Result<std::unique_ptr<Fleet>> dns_fleet(const std::string& address, DnsFleetOptions options) {
  ASSIGN(DnsName name, parse_dns_name(address));
  return std::make_unique<DnsFleet>(std::move(name), std::move(options));
}

}  // namespace carya::remote
