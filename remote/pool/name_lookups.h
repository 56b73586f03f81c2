#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/mutex.h"
#include "remote/protocol/address.h"

namespace carya::remote {

/// Looks names up for a pool, which must not wait for a resolver. A resolver that does not answer keeps the thread in
/// run() for as long as it likes: who starts that thread gives it the object, and waits for neither.
/// Threads: one thread in run(); all else is thread-safe and returns at once.
class NameLookups {
 public:
  /// `look_up` makes an address known, as Address::look_up() does.
  explicit NameLookups(std::function<Status(Address&)> look_up) : look_up_(std::move(look_up)) {}

  /// Look up addresses, one after the other, until stop().
  void run();
  void stop();

  /// Look up this address ("host:port") as soon as its turn comes.
  void ask(const std::string& address);
  /// The address as it was found since it was asked for, or why it was not; none: that is not known yet. Each answer is
  /// given once.
  std::optional<Result<Address>> take(const std::string& address);

 private:
  const std::function<Status(Address&)> look_up_;
  Mutex mutex_;
  Condition changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::set<std::string> asked_ GUARDED_BY(mutex_);
  std::map<std::string, Result<Address>> found_ GUARDED_BY(mutex_);
};

}  // namespace carya::remote
