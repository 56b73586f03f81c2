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
  TRY(check("records", facts.records, kAboveZero));
  TRY(check("capacity_bytes", facts.capacity_bytes, 0));
  TRY(check("epochs_left", facts.epochs_left, 1));
  TRY(check("filling_epochs", facts.filling_epochs, 0));
  for (const CachePlace& place : facts.places) {
    const std::string where = fmt::format("after {} ops: ", place.ops);
    TRY(check(where + "fill_s", place.fill_s, 0));
    TRY(check(where + "hit_s", place.hit_s, 0));
    TRY(check(where + "bytes", place.bytes, kAboveZero));
  }
  return {};
}

CacheCost cost_of(const CacheInputs& facts, std::size_t index) {
  const CachePlace& place = facts.places[index];
  const double share = std::min(1.0, facts.capacity_bytes / (facts.records * place.bytes));
  const double saved = facts.sample_s - place.hit_s;
  const double extra = place.fill_s - facts.sample_s;
  CacheCost cost{.place = index, .share = share};
  cost.later_s = facts.sample_s - share * saved;
  cost.run_s = facts.epochs_left * facts.sample_s +
               share * (facts.filling_epochs * extra - (facts.epochs_left - facts.filling_epochs) * saved);
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
  choice.all.push_back(
      {.run_s = facts.epochs_left * facts.sample_s, .later_s = facts.sample_s, .pays_back_epochs = 0});
  for (std::size_t i = 0; i < facts.places.size(); ++i) choice.all.push_back(cost_of(facts, i));
  const auto best = std::ranges::min_element(choice.all, {}, &CacheCost::run_s);
  const std::size_t now = present && *present < facts.places.size() ? *present + 1 : 0;
  const bool worth = best->run_s < (1 - kCacheMargin) * choice.all[now].run_s;
  choice.chosen = worth ? *best : choice.all[now];
  return choice;
}

}  // namespace carya::autotune
