#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/http/store_access.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// What this process lends a daemon for the stores of one pipeline: its credentials of now, and how it connects.
/// Threads: const is thread-safe.
class StoreLender {
 public:
  /// Null if the pipeline has no URLs. By a thread of a user's call, since the environment is read. Errors: those of the
  /// URLs; kUnsupported (no libcurl).
  static Result<std::shared_ptr<const StoreLender>> create(const transforms::Pipeline& pipeline);

  /// The body of a message Lend; a secret, for the caller to wipe. `refused`: a store refused what was lent before. May
  /// wait for credentials that have to be asked for.
  std::string lend(bool refused) const;

 private:
  StoreLender() = default;
  std::shared_ptr<io::StoreAccess> access_;
  std::vector<io::StoreUrl> urls_;  // one of each account
};

}  // namespace carya::loader
