#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "io/credentials/grant.h"

namespace carya::io {

/// What one process lends another one for the stores of one account: a grant, or why there is none.
struct LentGrant {
  std::string account;  ///< account_of() of a URL
  Grant grant;          ///< empty: requests are sent as anybody's
  std::string
      why{};  ///< why there is none; "": there is one, or there need be none. No secret; a client's words
  bool for_now = false;  ///< who gives it is away: requests wait for it

  bool operator==(const LentGrant&) const = default;
};

/// The grants that one client lends, for as long as it is there. The client is asked for others when one is about to
/// expire, did expire, or was refused; it gives them by lend(). Nobody else is asked: this process's own environment,
/// files and machine never are.
///
/// Threads: thread-safe; nothing waits. `ask` is called under the lock, and calls nothing of this object.
class LentGrants {
 public:
  /// `ask`: tells the client, by way of take_wish(), that others are wanted.
  explicit LentGrants(std::function<void()> ask) : ask_(std::move(ask)) {}

  /// The client's grants of now, in place of those before. Of each `why` the first KiB is kept, without control
  /// characters. Errors: kInvalidArgument (of a form that no header may have, more than 64, or of an account with a name of
  /// more than 64 bytes; nothing changes).
  Status lend(std::vector<LentGrant> grants) EXCLUDES(mutex_);
  /// The client has gone: its grants are forgotten, and it is asked no more.
  void take_back() EXCLUDES(mutex_);

  /// The grant of an account; an empty one where there is none that is good. Asks the client when it is due.
  Grant current(std::string_view account) EXCLUDES(mutex_);
  /// Whether the account has a grant that is not good any more, or one that could not be had for now, and the client was
  /// asked for another.
  bool waits(std::string_view account) EXCLUDES(mutex_);
  /// A store refused it: the client is asked for another one.
  void refused() EXCLUDES(mutex_);
  /// Why there is none; nothing: there is one, or there need be none.
  std::optional<Error> failure(std::string_view account) const EXCLUDES(mutex_);
  bool is_gone() const EXCLUDES(mutex_);
  /// A digest of what is lent: equal for those who hold the same secrets. Nothing where one of the grants is empty or
  /// waited for, or the client has gone: that says nothing of who may read.
  std::optional<std::string> rights() const EXCLUDES(mutex_);

  /// What the client is to be told: nothing, or whether a store refused what it gave.
  struct Wish {
    bool refused = false;
  };
  std::optional<Wish> take_wish() EXCLUDES(mutex_);

 private:
  struct Kept {
    LentGrant lent;
    std::int64_t due_s = 0;         // seconds since 1970, from when on another one is asked for; 0: never
    std::int64_t good_until_s = 0;  // a little before it expires
    bool is_good() const;
  };
  const Kept* find(std::string_view account) const REQUIRES(mutex_);
  void wish(bool refused) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::function<void()> ask_ GUARDED_BY(mutex_);
  std::vector<Kept> kept_ GUARDED_BY(mutex_);
  std::optional<Wish> wish_ GUARDED_BY(mutex_);
  std::int64_t wished_ns_ GUARDED_BY(mutex_) = 0;  // 0: never
};

}  // namespace carya::io
