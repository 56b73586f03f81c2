#include "loader/cache/storage_meter.h"

#include <algorithm>
#include <cmath>

namespace carya::loader {
namespace {

std::size_t index_of(StorageWork work) {
  return static_cast<std::size_t>(work);
}

SizeCost scaled(const SizeCost& cost, const autotune::Series& factors) {
  if (factors.count() == 0) return cost;
  const double factor = factors.mean();
  return {.fixed_s = factor * cost.fixed_s, .per_byte_s = factor * cost.per_byte_s};
}

}  // namespace

StorageMeter::StorageMeter(const std::optional<StorageRates>& earlier) : known_(earlier) {}

void StorageMeter::set(const StorageRates& rates) {
  known_ = rates;
  known_error_ = kProbeError;
  factors_ = {};
  measured_at_s_ = 0;
}

bool StorageMeter::add(StorageWork work, double seconds, std::uint64_t count, std::uint64_t bytes) {
  const auto n = static_cast<double>(count);
  const double expected_s = known_->time_of(work).at(static_cast<double>(bytes) / n);
  if (!(expected_s > 0)) return false;
  return factors_.at(index_of(work)).add(seconds / n / expected_s);
}

bool StorageMeter::look(const FileTierStats& stats, StorageWork read, std::int64_t now_s) {
  if (!known_) return false;
  if (!last_) {
    last_ = stats;
    return false;
  }
  bool changed = false;
  FileTierStats& last = *last_;
  if (const std::uint64_t reads = stats.many_reads - last.many_reads; reads >= kEnough) {
    changed = add(read, stats.many_s - last.many_s, reads, stats.many_bytes - last.many_bytes);
    last.many_reads = stats.many_reads;
    last.many_bytes = stats.many_bytes;
    last.many_s = stats.many_s;
    measured_at_s_ = now_s;
  }
  if (const std::uint64_t writes = stats.store.written - last.store.written; writes >= kEnough) {
    changed |= add(StorageWork::kWrite, stats.write_s - last.write_s, writes,
                   stats.store.written_bytes - last.store.written_bytes);
    last.store = stats.store;
    last.write_s = stats.write_s;
    measured_at_s_ = now_s;
  }
  return changed;
}

std::optional<StorageRates> StorageMeter::rates() const {
  if (!known_) return std::nullopt;
  StorageRates rates = *known_;
  for (std::size_t i = 0; i < kStorageWorks; ++i) rates.time.at(i) = scaled(rates.time.at(i), factors_.at(i));
  rates.measured_at_s = std::max(rates.measured_at_s, measured_at_s_);
  return rates;
}

double StorageMeter::error(StorageWork work) const {
  const double measured = factors_.at(index_of(work)).relative_error();
  return std::isfinite(measured) ? measured : known_error_;
}

}  // namespace carya::loader
