#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"

namespace carya::transforms {

/// Tables that take longer to make than to use: those of `key`, made by `make()` at the first call. They are kept for
/// the process, of 64 keys at most.
/// Threads: thread-safe.
template <typename Table, typename Make>
std::shared_ptr<const Table> kept_table(const std::string& key, const Make& make) {
  constexpr std::size_t kKeptMax = 64;
  static Mutex mutex;
  static std::map<std::string, std::shared_ptr<const Table>> kept;
  const MutexLock lock(mutex);
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  if (kept.size() >= kKeptMax) kept.clear();
  return kept.emplace(key, std::make_shared<const Table>(make())).first->second;
}

}  // namespace carya::transforms
