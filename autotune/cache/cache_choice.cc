#include "autotune/cache/cache_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace carya::autotune {
namespace {

Status check(const std::string& name, double number, double least) {
  if (std::isfinite(number) && number >= least) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("cache: {} is {}; give a finite number of at least {}", name, number, least));
}

Status check(const CacheInputs& facts) {
  constexpr double kAboveZero = 1e-300;
  TRY(check("sample_s", facts.sample_s, kAboveZero));
  TRY(check("read_s", facts.read_s, 0));
  TRY(check("wait_s", facts.wait_s, 0));
  TRY(check("records", facts.records, kAboveZero));
  TRY(check("capacity_bytes", facts.capacity_bytes, 0));
  TRY(check("epochs_left", facts.epochs_left, 1));
  TRY(check("filling_epochs", facts.filling_epochs, 0));
  for (const CachePlace& place : facts.places) {
    const std::string where = fmt::format("after {} ops: ", place.at.ops);
    TRY(check(where + "fill_s", place.fill_s, 0));
    TRY(check(where + "hit_s", place.hit_s, 0));
    TRY(check(where + "bytes", place.bytes, kAboveZero));
    TRY(check(where + "fetch_s", place.fetch_s, 0));
    TRY(check(where + "put_s", place.put_s, 0));
    TRY(check(where + "capacity_bytes", place.capacity_bytes, 0));
  }
  return {};
}

/// CPU seconds per record of an epoch in which a sample takes `compute_s`, a share of the records is read, and the place
/// where samples are kept is busy for `kept_s`. What is slowest decides: the others go on beside it.
double epoch_s(const CacheInputs& facts, double compute_s, double read_share, double kept_s = 0) {
  return std::max({compute_s, read_share * facts.wait_s, kept_s}) + read_share * facts.read_s;
}

CacheCost cost_of(const CacheInputs& facts, std::size_t index) {
  const CachePlace& place = facts.places[index];
  const double capacity = place.capacity_bytes > 0 ? place.capacity_bytes : facts.capacity_bytes;
  const double share = std::min(1.0, capacity / (facts.records * place.bytes));
  const double without_s = epoch_s(facts, facts.sample_s, 1);
  const double filling_s =
      epoch_s(facts, facts.sample_s + share * (place.fill_s - facts.sample_s), 1, share * place.put_s);
  CacheCost cost{.place = index, .share = share};
  cost.later_s = epoch_s(facts, facts.sample_s + share * (place.hit_s - facts.sample_s), 1 - share,
                         share * place.fetch_s);
  cost.run_s = facts.filling_epochs * filling_s + (facts.epochs_left - facts.filling_epochs) * cost.later_s;
  const double extra = filling_s - without_s, saved = without_s - cost.later_s;
  if (extra <= 0)
    cost.pays_back_epochs = 0;
  else if (saved > 0)
    cost.pays_back_epochs = facts.filling_epochs * (1 + extra / saved);
  return cost;
}

}  // namespace

double expected_epochs(std::optional<double> epochs, double epoch) {
  return epochs ? std::max(1.0, *epochs - epoch) : epoch + 2;
}

double filling_epochs(double ranks, double epochs) {
  constexpr double kHardlyAny = 1e-6;
  double unmet = 1;  // the share of records that it has not met yet
  for (double epoch = 0; epoch < epochs && unmet > kHardlyAny; ++epoch) unmet *= 1 - 1 / std::max(1.0, ranks);
  return std::max(1.0, ranks * (1 - unmet));
}

Result<CacheChoice> choose_cache(const CacheInputs& facts, std::optional<std::size_t> present) {
  TRY(check(facts));
  CacheChoice choice;
  const double without_s = epoch_s(facts, facts.sample_s, 1);
  choice.all.push_back({.run_s = facts.epochs_left * without_s, .later_s = without_s, .pays_back_epochs = 0});
  for (std::size_t i = 0; i < facts.places.size(); ++i) choice.all.push_back(cost_of(facts, i));
  const auto best = std::ranges::min_element(choice.all, {}, &CacheCost::run_s);
  const std::size_t now = present && *present < facts.places.size() ? *present + 1 : 0;
  const bool worth = best->run_s < (1 - kCacheMargin) * choice.all[now].run_s;
  choice.chosen = worth ? *best : choice.all[now];
  return choice;
}

}  // namespace carya::autotune
