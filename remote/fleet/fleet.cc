#include "remote/fleet/fleet.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <mutex>

namespace carya::remote {
namespace {

constexpr std::size_t kAddressBytesMax = 300;

class StaticFleet final : public Fleet {
 public:
  StaticFleet(std::vector<std::string> addresses, FleetOptions options)
      : addresses_(std::move(addresses)), options_(std::move(options)), wanted_(most()) {}

  void run() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopped_; });
  }
  void stop() override {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
  }
  void scale(std::uint32_t count) override {
    const std::lock_guard lock(mutex_);
    wanted_ = std::min(count, most());
  }
  std::vector<std::string> members() const override {
    const std::lock_guard lock(mutex_);
    return {addresses_.begin(), addresses_.begin() + wanted_};
  }
  std::uint32_t most() const override { return static_cast<std::uint32_t>(addresses_.size()); }
  double price_per_hour() const override { return options_.price_per_hour; }

 private:
  const std::vector<std::string> addresses_;
  const FleetOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t wanted_;
  bool stopped_ = false;
};

}  // namespace

bool is_worker_address(const std::string& text) {
  const auto printable = [](char c) { return c > ' ' && c < 0x7F && c != '"'; };
  if (text.size() > kAddressBytesMax || !std::ranges::all_of(text, printable)) return false;
  if (text.starts_with("unix:")) return text.size() > 6 && text[5] == '/';
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string host = text.substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (!bracketed && host.find_first_of(":[]/") != std::string::npos) return false;
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + colon + 1, end, port);
  return read.ec == std::errc() && read.ptr == end && port > 0;
}

Result<std::unique_ptr<Fleet>> static_fleet(std::vector<std::string> addresses, FleetOptions options) {
  if (addresses.empty())
    return fail(Code::kInvalidArgument, "workers: the list is empty; give \"host:port\" of each");
  for (const std::string& address : addresses)
    if (!is_worker_address(address))
      return fail(Code::kInvalidArgument,
                  "worker address: got \"" + address + "\"; give host:port or unix:/path");
  std::vector<std::string> unique;
  for (std::string& address : addresses)
    if (std::ranges::find(unique, address) == unique.end()) unique.push_back(std::move(address));
  return std::make_unique<StaticFleet>(std::move(unique), std::move(options));
}

}  // namespace carya::remote
