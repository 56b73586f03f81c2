#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "io/http/answer.h"
#include "io/http/aws_profile.h"

namespace carya::io {

/// How long a store may take. A request that breaks a limit is tried again.
struct HttpLimits {
  std::int64_t connect_ms = 10'000;
  /// A body that comes slower than 1 KiB/s for so long has stopped.
  std::int64_t stalled_s = 10;
};

/// How this process may ask stores: its credentials, and how far the store's clock is off. Threads: thread-safe.
class StoreAccess {
 public:
  /// How a connection is made.
  struct Way {
    std::string authority;  ///< the file of a private CA; "": the system's
    std::string proxy;      ///< "": none
    std::string no_proxy;   ///< hosts without; "": none
  };

  explicit StoreAccess(AwsProfile profile);
  /// That of the client which a user's call made last (StoreClient::shared()).
  static std::shared_ptr<StoreAccess> current();
  static void set_current(std::shared_ptr<StoreAccess> access);

  Result<StoreUrl> parse(std::string_view url) const;
  /// The headers that sign a request; none for plain HTTP or without credentials.
  std::vector<std::string> sign(const StoreUrl& url, std::string_view method,
                                const std::vector<std::pair<std::string, std::string>>& query) const;
  const Way& way(bool tls) const { return tls ? tls_ : plain_; }
  bool signs(const StoreUrl& url) const;
  /// The store refused a request: take credentials that were renewed since, and its clock where ours is off by more
  /// than S3 lets it be.
  void refused(const Answer& answer);

 private:
  const Way plain_, tls_;
  mutable Mutex mutex_;
  AwsProfile profile_ GUARDED_BY(mutex_);
  std::int64_t read_ns_ GUARDED_BY(mutex_);
  std::atomic<std::int64_t> clock_off_s_{0};
};

}  // namespace carya::io
