#include "autotune/cache/cache_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
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
  TRY(check("epoch", facts.epoch, 0));
  TRY(check("ranks", facts.ranks, 1));
  for (const CachePlace& place : facts.places) {
    const std::string where = fmt::format("after {} ops: ", place.at.ops);
    TRY(check(where + "fill_s", place.fill_s, 0));
    TRY(check(where + "hit_s", place.hit_s, 0));
    TRY(check(where + "bytes", place.bytes, kAboveZero));
    TRY(check(where + "kept", place.kept, 0));
    for (const CacheTier& tier : place.tiers) {
      TRY(check(where + "capacity_bytes", tier.capacity_bytes, 0));
      TRY(check(where + "read_cpu_s", tier.read_cpu_s, 0));
      TRY(check(where + "write_cpu_s", tier.write_cpu_s, 0));
      TRY(check(where + "fetch_s", tier.fetch_s, 0));
      TRY(check(where + "put_s", tier.put_s, 0));
      TRY(check(where + "error", tier.error, 0));
    }
  }
  return {};
}

/// CPU seconds per record of an epoch in which a sample takes `compute_s`, a share of the records is read, and the place
/// where samples are kept is busy for `kept_s`. What is slowest decides: the others go on beside it.
double epoch_s(const CacheInputs& facts, double compute_s, double read_share, double kept_s = 0) {
  return std::max({compute_s, read_share * facts.wait_s, kept_s}) + read_share * facts.read_s;
}

/// So many times as long as thought each storage takes.
using Factors = std::array<double, kCacheStorages>;
constexpr Factors kAsThought{1, 1, 1};

/// What the tiers of a place keep of a record, in the mean, and what that costs.
struct Kept {
  double share = 0;
  double read_cpu_s = 0, write_cpu_s = 0;
  double fetch_s = 0, put_s = 0;  // of the tier that is slowest
  double written_bytes = 0;       // to files
};

Kept kept_by(const CacheInputs& facts, const CachePlace& place, const Factors& factors) {
  const std::vector<CacheTier> memory{{.capacity_bytes = facts.capacity_bytes}};
  Kept kept;
  for (const CacheTier& tier : place.tiers.empty() ? memory : place.tiers) {
    const double share = std::min(1 - kept.share, tier.capacity_bytes / (facts.records * place.bytes));
    const double factor = factors.at(static_cast<std::size_t>(tier.storage));
    if (tier.storage != CacheStorage::kMemory) kept.written_bytes += share * place.bytes;
    kept.share += share;
    kept.read_cpu_s += share * tier.read_cpu_s;
    kept.write_cpu_s += share * tier.write_cpu_s;
    kept.fetch_s = std::max(kept.fetch_s, share * factor * tier.fetch_s);
    kept.put_s = std::max(kept.put_s, share * factor * tier.put_s);
  }
  return kept;
}

/// An epoch in which of what is kept in the end the part `hits` is found and the part `fills` is put there.
double mixed_s(const CacheInputs& facts, const CachePlace& place, const Kept& kept, double hits,
               double fills) {
  const double compute_s =
      facts.sample_s +
      kept.share * (hits * (place.hit_s - facts.sample_s) + fills * (place.fill_s - facts.sample_s)) +
      hits * kept.read_cpu_s + fills * kept.write_cpu_s;
  return epoch_s(facts, compute_s, 1 - hits * kept.share, std::max(hits * kept.fetch_s, fills * kept.put_s));
}

/// Of what is kept in the end, the part that is there already.
double part_of(const CachePlace& place, const Kept& kept) {
  return kept.share > 0 ? std::min(1.0, place.kept / kept.share) : 0;
}

/// CPU seconds per record of so many epochs with the same samples, of which a part is there already and the rest is put
/// there. Of ranks that keep apart, each meets some of the rest in every epoch. Nothing is put there that is over with
/// the only epoch of a group.
double filled_s(const CacheInputs& facts, const CachePlace& place, const Kept& kept, double epochs,
                double part) {
  if (place.groups && epochs <= 1) return epochs * mixed_s(facts, place, kept, part, 0);
  const double filling = filling_epochs(facts.ranks, epochs);
  return filling * mixed_s(facts, place, kept, part, 1 - part) +
         (epochs - filling) * mixed_s(facts, place, kept, 1, 0);
}

double as_double(std::uint64_t epochs) {
  return static_cast<double>(epochs);
}

std::uint64_t present_epoch(const CacheInputs& facts) {
  return static_cast<std::uint64_t>(facts.epoch);
}

/// The epochs that are left in which what is kept now is found.
double epochs_with(const CacheInputs& facts, const CachePlace& place) {
  if (!place.groups) return facts.epochs_left;
  return std::min(facts.epochs_left, as_double(place.groups->end(present_epoch(facts))) - facts.epoch);
}

/// CPU seconds per record of the epochs that are left, where what is not there yet is put there: the present group of a
/// place that has groups, and of each part of those that follow whole ones and the beginning of another.
double filled_run_s(const CacheInputs& facts, const CachePlace& place, const Kept& kept) {
  const double present = epochs_with(facts, place);
  double sum_s = filled_s(facts, place, kept, present, part_of(place, kept));
  double left = facts.epochs_left - present, epoch = facts.epoch + present;
  while (left > 0 && place.groups) {
    const std::vector<EpochGroups::Part>& parts = place.groups->parts();
    const std::size_t at = place.groups->part_at(static_cast<std::uint64_t>(epoch));
    const double here = at + 1 < parts.size() ? std::min(left, as_double(parts[at + 1].from) - epoch) : left;
    const double length = as_double(parts[at].epochs), whole = std::floor(here / length);
    sum_s += whole * filled_s(facts, place, kept, length, 0);
    sum_s += filled_s(facts, place, kept, here - whole * length, 0);
    left -= here;
    epoch += here;
  }
  return sum_s;
}

CacheCost cost_of(const CacheInputs& facts, std::size_t index, const Factors& factors = kAsThought) {
  const CachePlace& place = facts.places[index];
  const Kept kept = kept_by(facts, place, factors);
  const double without_s = epoch_s(facts, facts.sample_s, 1);
  const double part = part_of(place, kept);
  const double filling_s = mixed_s(facts, place, kept, part, 1 - part);
  CacheCost cost{.place = index, .share = kept.share, .written_bytes = (1 - part) * kept.written_bytes};
  const double hits_s = mixed_s(facts, place, kept, 1, 0);
  const double group = place.groups ? group_epochs(facts, place) : 0;
  cost.later_s = place.groups ? filled_s(facts, place, kept, group, 0) / group : hits_s;
  cost.run_s = filled_run_s(facts, place, kept);
  const double extra = filling_s - without_s, saved = without_s - hits_s;
  const double filling = filling_epochs(facts.ranks, epochs_with(facts, place));
  if (extra <= 0)
    cost.pays_back_epochs = 0;
  else if (const double epochs = filling * (1 + extra / saved);
           saved > 0 && (!place.groups || epochs <= group))
    cost.pays_back_epochs = epochs;
  return cost;
}

double run_s(const CacheInputs& facts, const CacheCost& cost, const Factors& factors) {
  return cost.place ? cost_of(facts, *cost.place, factors).run_s : cost.run_s;
}

/// The largest errors that places have of each storage.
Factors errors_of(const CacheInputs& facts) {
  Factors errors{};
  for (const CachePlace& place : facts.places)
    for (const CacheTier& tier : place.tiers)
      if (double& error = errors.at(static_cast<std::size_t>(tier.storage)); tier.error > error)
        error = tier.error;
  return errors;
}

/// Whether `next` costs less than `now` at every corner of what the storages' rates may be.
bool is_surely_better(const CacheInputs& facts, const CacheCost& next, const CacheCost& now) {
  const Factors errors = errors_of(facts);
  for (unsigned corner = 0; corner < 1U << kCacheStorages; ++corner) {
    Factors factors{};
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const double far = 1 + kCacheErrors * errors.at(i);
      factors.at(i) = (corner >> i & 1) != 0 ? far : 1 / far;
    }
    if (run_s(facts, next, factors) >= run_s(facts, now, factors)) return false;
  }
  return true;
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

double group_epochs(const CacheInputs& facts, const CachePlace& place) {
  const std::uint64_t epoch = present_epoch(facts);
  return as_double(place.groups->end(epoch) - place.groups->first(epoch));
}

double cache_share(const CacheInputs& facts, const CachePlace& place) {
  return kept_by(facts, place, kAsThought).share;
}

bool pays_to_fill(const CacheInputs& facts, const CachePlace& place) {
  const Kept kept = kept_by(facts, place, kAsThought);
  if (!(kept.share > place.kept)) return false;
  const double epochs = epochs_with(facts, place), part = part_of(place, kept);
  return filled_s(facts, place, kept, epochs, part) < epochs * mixed_s(facts, place, kept, part, 0);
}

Result<CacheChoice> choose_cache(const CacheInputs& facts, const CacheNow& now) {
  TRY(check(facts));
  CacheChoice choice;
  const double without_s = epoch_s(facts, facts.sample_s, 1);
  choice.all.push_back({.run_s = facts.epochs_left * without_s, .later_s = without_s, .pays_back_epochs = 0});
  for (std::size_t i = 0; i < facts.places.size(); ++i) choice.all.push_back(cost_of(facts, i));
  const CacheCost& present = choice.all[now.present < choice.all.size() ? now.present : 0];
  choice.chosen = present;
  for (std::size_t i = 0; i < choice.all.size(); ++i) {
    const CacheCost& next = choice.all[i];
    const double margin = now.left == i ? kCacheUndoMargin : kCacheMargin;
    if (next.run_s < choice.chosen.run_s && next.run_s < (1 - margin) * present.run_s &&
        is_surely_better(facts, next, present))
      choice.chosen = next;
  }
  return choice;
}

}  // namespace carya::autotune
