#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "io/http/store_access.h"
#include "loader/control/channel.h"

namespace carya::loader {

/// What the client of one connection lends for the stores of its job, until the connection ends. Threads: owner only; what
/// access() gives is thread-safe.
class LentAccess {
 public:
  LentAccess() = default;
  ~LentAccess();
  LentAccess(const LentAccess&) = delete;
  LentAccess& operator=(const LentAccess&) = delete;

  /// Take a message Lend, and overwrite its bytes. `wake`: makes the owner call tell() soon, from any thread. Errors: those
  /// of the document; kInvalidArgument (other terms than before, or terms or credentials that may not be sent).
  Status take(Message& message, const std::function<void()>& wake);
  /// Tell the client what is wanted of it, if something is.
  void tell(Channel& channel) const;
  /// How the job's stores are asked; null: the client has lent nothing.
  const std::shared_ptr<io::StoreAccess>& access() const { return access_; }

 private:
  std::shared_ptr<io::LentGrants> lent_;
  std::shared_ptr<io::StoreAccess> access_;
};

}  // namespace carya::loader
