// 1. Until a grant is known and good, whoever needs it takes `asking_` and asks, and the others wait for that.
// 2. From `renew_s_` on, the next who needs it starts a thread that asks, and takes the old grant meanwhile. It has 5
//    minutes for that, or half of the grant's time where that is less, and tries once a second.
// 3. A failure leaves the old grant as it is. Without any, requests are sent as anybody's, and the store refuses them or
//    not; failure() then says why there is none.
#include "io/credentials/renewal.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/clock.h"

namespace carya::io {
namespace {

constexpr std::int64_t kAgainNs = 1'000'000'000;

}  // namespace

Renewal::~Renewal() {
  std::thread last;
  {
    const MutexLock lock(mutex_);
    last = std::move(thread_);
  }
  if (last.joinable()) last.join();
}

bool Renewal::is_good() const {
  return known_ && (grant_.expires_s == 0 || unix_s() < good_until_s_);
}

bool Renewal::is_due() const {
  return renew_s_ != 0 && unix_s() >= renew_s_ && monotonic_ns() - asked_ns_ >= kAgainNs;
}

Grant Renewal::current() {
  bool due = false;
  {
    const MutexLock lock(mutex_);
    due = is_good() && is_due() && !running_;
    if (is_good() && !due) return grant_;
  }
  if (due) {
    begin();
  } else {
    const MutexLock turn(asking_);
    ask_now();
  }
  const MutexLock lock(mutex_);
  return is_good() ? grant_ : Grant{};
}

/// Unless somebody else did meanwhile.
void Renewal::ask_now() {
  {
    const MutexLock lock(mutex_);
    const bool tried = asked_ns_ != 0 && monotonic_ns() - asked_ns_ < kAgainNs;
    if ((is_good() && !is_due()) || (tried && failure_)) return;
    asked_ns_ = monotonic_ns();
  }
  const std::int64_t begun_s = unix_s();
  Result<Grant> answer = ask_();
  if (answer && !is_sendable(*answer))
    answer =
        fail(Code::kInvalidArgument, "credentials: they hold characters that no header may; give them anew");
  const MutexLock lock(mutex_);
  asked_ns_ = monotonic_ns();
  if (!answer) {
    failure_ = std::move(answer.error());
    return;
  }
  failure_.reset();
  known_ = true;
  grant_ = *answer;
  // Where the answer says how long a token lasts, that began with the question at the latest.
  if (grant_.expires_s != 0) grant_.expires_s -= unix_s() - begun_s;
  const GrantTimes times = times_of(grant_, unix_s());
  renew_s_ = times.renew_s;
  good_until_s_ = times.good_until_s;
}

void Renewal::begin() {
  std::thread last;
  {
    const MutexLock lock(mutex_);
    if (running_) return;
    running_ = true;
    last = std::move(thread_);
  }
  if (last.joinable()) last.join();  // it has ended, but for its last instructions
  sigset_t all, before;              // the thread takes no signals: those are the trainer's
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto renew = [this] {
    {
      const MutexLock turn(asking_);
      ask_now();
    }
    const MutexLock lock(mutex_);
    running_ = false;
  };
  try {
    std::thread started(renew);
    const MutexLock lock(mutex_);
    thread_ = std::move(started);
  } catch (const std::system_error&) {
    const MutexLock lock(mutex_);  // the old grant is good, and the next call tries again
    running_ = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Renewal::refused() {
  const MutexLock lock(mutex_);
  if (monotonic_ns() - asked_ns_ < kAgainNs) return;
  known_ = false;
}

std::optional<Error> Renewal::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

}  // namespace carya::io
