#include "remote/pool/name_lookups.h"

#include <utility>

namespace carya::remote {

void NameLookups::run() {
  MutexLock lock(mutex_);
  while (true) {
    while (!stopped_ && asked_.empty()) changed_.wait(lock);
    if (stopped_) return;
    const std::string address = *asked_.begin();
    lock.unlock();
    Result<Address> found = Address::parse(address);
    if (found)
      if (Status known = look_up_(*found); !known) found = std::unexpected(std::move(known.error()));
    lock.lock();
    asked_.erase(address);
    found_.insert_or_assign(address, std::move(found));
  }
}

void NameLookups::stop() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

void NameLookups::ask(const std::string& address) {
  {
    const MutexLock lock(mutex_);
    asked_.insert(address);
  }
  changed_.notify_all();
}

std::optional<Result<Address>> NameLookups::take(const std::string& address) {
  const MutexLock lock(mutex_);
  const auto found = found_.extract(address);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

}  // namespace carya::remote
