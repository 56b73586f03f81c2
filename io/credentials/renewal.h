#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "io/credentials/grant.h"

namespace carya::io {

/// One grant, kept for as long as it is good. It is asked for by the first who needs it, and again by a thread of its own
/// before it expires, so that requests wait for it once.
///
/// Threads: thread-safe; `ask` is called by one thread at a time. Destruction waits for an ask that is under way.
class Renewal {
 public:
  using Ask = std::function<Result<Grant>()>;

  explicit Renewal(Ask ask) : ask_(std::move(ask)) {}
  ~Renewal();
  Renewal(const Renewal&) = delete;
  Renewal& operator=(const Renewal&) = delete;

  /// The grant of now; an empty one where there is none or none could be had (failure()). Waits where none is good.
  Grant current() EXCLUDES(mutex_, asking_);
  /// A store refused it: the next who needs it asks anew, once a second at most.
  void refused() EXCLUDES(mutex_);
  /// Why the last ask failed; nothing: it did not.
  std::optional<Error> failure() const EXCLUDES(mutex_);

 private:
  bool is_good() const REQUIRES(mutex_);
  bool is_due() const REQUIRES(mutex_);
  void ask_now() REQUIRES(asking_) EXCLUDES(mutex_);
  void begin() EXCLUDES(mutex_);

  const Ask ask_;
  Mutex asking_;  // held while asking; taken before mutex_
  mutable Mutex mutex_;
  Grant grant_ GUARDED_BY(mutex_);
  bool known_ GUARDED_BY(mutex_) = false;  // an ask succeeded, and no store refused it since
  std::int64_t renew_s_ GUARDED_BY(mutex_) =
      0;  // seconds since 1970, from when on it is asked for again; 0: never
  std::int64_t good_until_s_ GUARDED_BY(mutex_) = 0;  // seconds since 1970; a little before it expires
  std::int64_t asked_ns_ GUARDED_BY(mutex_) = 0;      // when it was asked for last; 0: never
  std::optional<Error> failure_ GUARDED_BY(mutex_);
  bool running_ GUARDED_BY(mutex_) = false;  // the thread asks
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace carya::io
