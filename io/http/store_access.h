#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "io/credentials/aws_profile.h"
#include "io/credentials/environment.h"
#include "io/credentials/fetch.h"
#include "io/credentials/renewal.h"
#include "io/credentials/sigv4.h"
#include "io/http/answer.h"
#include "io/http/store_url.h"

namespace carya::io {

/// How long a store may take. A request that breaks a limit is tried again.
struct HttpLimits {
  std::int64_t connect_ms = 10'000;
  /// A body that comes slower than 1 KiB/s for so long has stopped.
  std::int64_t stalled_s = 10;
};

/// How a connection is made.
struct StoreWay {
  std::string authority;  ///< the file of a private CA; "": the system's
  std::string proxy;      ///< "": none
  std::string no_proxy;   ///< hosts without; "": none
};

/// What the environment and the profile files say of stores.
struct StoreSources {
  Environment environment;
  AwsProfile profile;

  bool operator==(const StoreSources&) const = default;
};

/// This process's. Threads: those of a user's call.
StoreSources read_store_sources();
/// How connections are made, with TLS or without.
StoreWay way_of(const StoreSources& sources, bool tls);

/// What lets a request in.
struct Signature {
  std::vector<std::string> headers;  ///< "name: value"
  std::string query;                 ///< added to the URL's, encoded; a secret; "": nothing
};

/// How this process may ask stores: its credentials, and how far a store's clock is off. Threads: thread-safe.
class StoreAccess {
 public:
  StoreAccess(StoreSources sources, Fetch fetch);
  /// That of the client which a user's call made last (StoreClient::shared()).
  static std::shared_ptr<StoreAccess> current();
  static void set_current(std::shared_ptr<StoreAccess> access);

  Result<StoreUrl> parse(std::string_view url) const { return parse_store_url(url, settings_); }
  /// What a request is signed by, or its token; nothing for plain HTTP or without credentials. May wait for credentials
  /// that have to be asked for.
  Signature sign(const StoreUrl& url, const UnsignedRequest& request);
  const StoreWay& way(bool tls) const { return tls ? tls_ : plain_; }
  /// What to do where a store refuses a request: which credentials there are none of, or why they could not be had.
  std::string advice(const StoreUrl& url);
  /// Whether credentials of a store could not be had for now: who gives them is away.
  bool lacks_for_now(const StoreUrl& url);
  /// The store refused a request: take credentials that were renewed since, and its clock where ours is off by more
  /// than S3 lets it be.
  void refused(const StoreUrl& url, const Answer& answer);

 private:
  Renewal* renewal(const StoreUrl& url) EXCLUDES(mutex_);
  Grant grant(const StoreUrl& url);

  const StoreSources sources_;
  const StoreSettings settings_;
  const StoreWay plain_, tls_;
  const Fetch fetch_;
  Renewal aws_, google_;
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<Renewal>> azure_ GUARDED_BY(mutex_);  // by account; they stay
  std::atomic<std::int64_t> clock_off_s_{0};
};

}  // namespace carya::io
