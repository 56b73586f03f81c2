#include "loader/cache/write_budget.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/clock.h"

namespace carya::loader {

WriteBudget::Moment WriteBudget::Moment::now() {
  return {.monotonic_ns = carya::monotonic_ns(), .wall_s = unix_s()};
}

void WriteBudget::go_on_to(Moment now) {
  const std::int64_t hour = now.monotonic_ns / kHourNs;
  if (hour <= hour_) return;
  io::age(bytes_, static_cast<std::uint64_t>(hour - hour_));
  hour_ = hour;
}

/// Null where nothing is limited.
std::shared_ptr<WriteBudget::Ledger> WriteBudget::ledger_of(const std::string& folder, Moment now) {
  if (above_ && above_->limit() != kNoLimit) return nullptr;
  std::shared_ptr<Ledger> ledger;
  {
    const MutexLock lock(mutex_);
    if (limit_ == kNoLimit) return nullptr;
    std::shared_ptr<Ledger>& known = ledgers_[folder];
    if (!known) known = std::make_shared<Ledger>();
    ledger = known;
  }
  const MutexLock opening(ledger->mutex);
  if (std::exchange(ledger->tried, true)) return ledger;
  auto opened = io::WriteLedger::open(folder);
  if (!opened) return ledger;
  ledger->file = std::make_unique<io::WriteLedger>(std::move(*opened));
  const auto before = ledger->file->read(now.wall_s);
  if (!before) return ledger;
  const MutexLock lock(mutex_);
  go_on_to(now);
  for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] += std::min((*before)[i], UINT64_MAX - bytes_[i]);
  return ledger;
}

bool WriteBudget::count(std::uint64_t bytes, Moment now) {
  const MutexLock lock(mutex_);
  go_on_to(now);
  if (bytes > limit_ - std::min(limit_, io::sum_of(bytes_))) return false;
  bytes_[0] += bytes;
  return true;
}

void WriteBudget::uncount(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  bytes_[0] -= std::min(bytes_[0], bytes);
}

std::shared_ptr<WriteBudget> WriteBudget::of_job(std::uint64_t job, std::uint64_t bytes_per_day,
                                                 const std::shared_ptr<WriteBudget>& above) {
  using Key = std::tuple<std::uint64_t, std::uint64_t, const WriteBudget*>;
  static Mutex mutex;
  static std::map<Key, std::weak_ptr<WriteBudget>> budgets;
  const MutexLock lock(mutex);
  std::erase_if(budgets, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<WriteBudget>& known = budgets[{job, bytes_per_day, above.get()}];
  std::shared_ptr<WriteBudget> budget = known.lock();
  if (!budget) known = budget = std::make_shared<WriteBudget>(bytes_per_day, above);
  return budget;
}

void WriteBudget::open_folder(const std::string& folder, Moment now) {
  if (above_) above_->open_folder(folder, now);
  ledger_of(folder, now);
}

bool WriteBudget::take(const std::string& folder, std::uint64_t bytes, Moment now) {
  const std::shared_ptr<Ledger> ledger = ledger_of(folder, now);
  if (!count(bytes, now)) return false;
  if (above_ && !above_->take(folder, bytes, now)) {
    uncount(bytes);
    return false;
  }
  if (!ledger) return true;
  Status counted;
  {
    const MutexLock writing(ledger->mutex);
    if (ledger->file) counted = ledger->file->add(bytes, limit(), now.wall_s);
  }
  // Storage that cannot count leaves it to this process; others that wrote, or are about to, come first.
  const bool refused = !counted && counted.error().sys_errno == 0 &&
                       (counted.error().code == Code::kExhausted || counted.error().code == Code::kTimeout);
  if (!refused) return true;
  if (above_) above_->give_back(folder, bytes, now);
  uncount(bytes);
  return false;
}

void WriteBudget::give_back(const std::string& folder, std::uint64_t bytes, Moment now) {
  if (const std::shared_ptr<Ledger> ledger = ledger_of(folder, now)) {
    const MutexLock writing(ledger->mutex);
    if (ledger->file) static_cast<void>(ledger->file->give_back(bytes, now.wall_s));
  }
  if (above_) above_->give_back(folder, bytes, now);
  uncount(bytes);
}

std::uint64_t WriteBudget::written(Moment now) {
  const MutexLock lock(mutex_);
  go_on_to(now);
  return io::sum_of(bytes_);
}

void WriteBudget::set_limit(std::uint64_t bytes_per_day) {
  const MutexLock lock(mutex_);
  limit_ = bytes_per_day;
}

std::uint64_t WriteBudget::limit() const {
  const MutexLock lock(mutex_);
  return limit_;
}

}  // namespace carya::loader
