#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "io/credentials/aws_profile.h"
#include "io/credentials/environment.h"
#include "io/credentials/fetch.h"
#include "io/credentials/lent_grants.h"
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

/// Whether somebody still waits for an answer. Threads: that of the call it is given to.
using GoesOn = std::function<bool()>;

/// How a connection is made.
struct StoreWay {
  std::string authority;  ///< the file of a private CA; "": the system's
  std::string proxy;      ///< "": none
  std::string no_proxy;   ///< hosts without; "": none

  bool operator==(const StoreWay&) const = default;
};

/// How stores are asked, beside credentials. A proxy may be named with its password.
struct StoreTerms {
  StoreSettings settings;
  StoreWay plain, tls;

  bool operator==(const StoreTerms&) const = default;
  /// A digest of all that decides who answers for a URL; "": the clouds themselves, with nobody between.
  std::string key() const;
  /// Whether all of it may be used as it is: a region is a word of a header, and no text has a line end. Errors:
  /// kInvalidArgument, with what to give.
  Status check() const;
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
/// What a URL's store is asked with one grant for: "s3", "gs", "az:account"; "": it is asked as anybody.
std::string account_of(const StoreUrl& url);

/// What lets a request in.
struct Signature {
  std::vector<std::string> headers;  ///< "name: value"
  std::string query;                 ///< added to the URL's, encoded; a secret; "": nothing
  std::shared_ptr<LentGrants> by{};  ///< whose grant it is; null: this process's, or nobody's
};

/// How stores are asked: with which credentials, and how far a store's clock is off. They are this process's own, or
/// those that clients of it lend: then nothing of its own is asked or used. Threads: thread-safe.
class StoreAccess {
 public:
  StoreAccess(StoreSources sources, Fetch fetch);
  /// By what clients lend, on their terms.
  StoreAccess(StoreTerms terms, std::vector<std::shared_ptr<LentGrants>> lent);
  /// Another one by the same clients and terms. What joins the one is not lent to who asks by the other.
  std::shared_ptr<StoreAccess> apart() EXCLUDES(mutex_);
  /// The clients of another access lend for this one too. The grant that is used is a good one that the store took last;
  /// where it refuses that, the next client's turn comes, for each bucket by itself. Those that have gone are forgotten.
  /// Whoever holds this object reads with their grants from then on. CHECKs that both are lent.
  void join(StoreAccess& other) EXCLUDES(mutex_);
  /// That of the client which a user's call made last (StoreClient::shared()).
  static std::shared_ptr<StoreAccess> current();
  static void set_current(std::shared_ptr<StoreAccess> access);

  Result<StoreUrl> parse(std::string_view url) const { return parse_store_url(url, terms_.settings); }
  /// What a request is signed by, or its token; nothing for plain HTTP or without credentials. May wait for credentials
  /// that have to be asked for.
  Signature sign(const StoreUrl& url, const UnsignedRequest& request);
  /// Whether what is at a URL is asked for as anybody could: by plain HTTP, through no proxy with a password. Stores of
  /// clouds are asked with credentials as soon as some are found, so they never count.
  bool asks_as_anybody(const StoreUrl& url) const;
  const StoreWay& way(bool tls) const { return tls ? terms_.tls : terms_.plain; }
  const StoreTerms& terms() const { return terms_; }
  /// Read the authorities that clients name, once, before the first request: regular files of at most 1 MiB, named without
  /// links. Errors: kInvalidArgument.
  Status read_authorities() EXCLUDES(mutex_);
  /// The bytes of such a file; null: none is named, or it was not read.
  std::shared_ptr<const std::string> authority(bool tls) EXCLUDES(mutex_);
  /// A digest of the terms and of what is lent: who has the same may read the same. Nothing where one of the grants is
  /// empty or waited for (LentGrants::rights()): then only the store says who may read.
  std::optional<std::string> rights() EXCLUDES(mutex_);
  /// Whether clients lend what it asks with.
  bool is_lent() const { return is_lent_; }
  /// What this process lends for an account (account_of()) of that URL. `refused`: a store refused what it lent before.
  /// May wait for credentials that have to be asked for.
  LentGrant lend(const StoreUrl& url, bool refused);
  /// Whether requests would be sent without the grant that they need, which a client is asked for. Never of own ones:
  /// those are waited for.
  bool waits(const StoreUrl& url) EXCLUDES(mutex_);
  /// What to do where a store refuses a request: which credentials there are none of, or why they could not be had.
  std::string advice(const StoreUrl& url);
  /// Whether credentials of a store could not be had for now: who gives them is away.
  bool lacks_for_now(const StoreUrl& url);
  /// The store refused a request that was let in by one client's grant (Signature::by): take credentials that were renewed
  /// since, or another client's, and its clock where ours is off by more than S3 lets it be. However many requests are
  /// refused that one client's grant was for, the turn goes on by one.
  void refused(const StoreUrl& url, const Answer& answer, const std::shared_ptr<LentGrants>& by)
      EXCLUDES(mutex_);

 private:
  Renewal* renewal(const StoreUrl& url) EXCLUDES(mutex_);
  Signature sign(const StoreUrl& url, const UnsignedRequest& request, const Grant& found);
  struct Found {
    Grant grant;  // empty: there is none
    std::shared_ptr<LentGrants> by{};
  };
  Found grant(const StoreUrl& url);
  Found any_grant(const StoreUrl& url);
  std::vector<std::shared_ptr<LentGrants>> lent_in_turn(const StoreUrl& url) EXCLUDES(mutex_);
  std::optional<Error> failure(const StoreUrl& url);
  std::vector<std::shared_ptr<LentGrants>> lent() EXCLUDES(mutex_);

  const StoreSources sources_;
  const StoreTerms terms_;
  const Fetch fetch_;
  const bool is_lent_ = false;
  Renewal aws_, google_;
  Mutex mutex_;
  std::vector<std::shared_ptr<LentGrants>> lent_ GUARDED_BY(mutex_);
  /// By bucket: whose turn it is among lent_. Nobody's grants stay for it.
  std::map<std::string, std::weak_ptr<LentGrants>> turns_ GUARDED_BY(mutex_);
  std::array<std::shared_ptr<const std::string>, 2> authorities_ GUARDED_BY(mutex_);  // by `tls`
  std::map<std::string, std::unique_ptr<Renewal>> azure_ GUARDED_BY(mutex_);          // by account; they stay
  std::atomic<std::int64_t> clock_off_s_{0};
};

}  // namespace carya::io
