#include "autotune/controller/series.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace carya::autotune {
namespace {

/// One false alarm in some hours of observing once a second; a change by two standard deviations is seen
/// after about ten measurements.
constexpr double kBreakErrors = 6;
constexpr std::size_t kBefore = 4;  // measurements that a break needs before it
constexpr double kOutside = 6;      // standard deviations
/// So many tell their own noise; before that, it is at least what it was before the break.
constexpr double kOwnNoise = 16;
// A drift: this share away from where the world began, which so many say. Of it so many are kept.
constexpr double kDrift = 0.05;
constexpr std::size_t kBegan = 128, kDrifted = 64;
constexpr std::size_t kNewest[] = {3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96};
/// Measurements are never taken to be better than this share of their mean.
constexpr double kNoiseMin = 1e-4;

}  // namespace

double student(double z, double degrees) {
  if (!(degrees >= 1)) return std::numeric_limits<double>::infinity();
  const double z2 = z * z, n = degrees;
  return z * (1 + (z2 + 1) / (4 * n) + ((5 * z2 + 16) * z2 + 3) / (96 * n * n) +
              (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * n * n * n));
}

Series::Moments Series::moments(std::size_t first, std::size_t last) const {
  const double count = static_cast<double>(last - first);
  if (last <= first) return {};
  const double sum = sums_[last].of - sums_[first].of;
  const double squares = sums_[last].of_squares - sums_[first].of_squares;
  const double mean = sum / count;
  const double spread = std::max(squares - sum * mean, 0.0) / std::max(count - 1, 1.0);
  return {count, mean, std::max(spread, kNoiseMin * kNoiseMin * mean * mean)};
}

void Series::keep_last(std::size_t count) {
  sums_.erase(sums_.begin(), sums_.end() - static_cast<std::ptrdiff_t>(count + 1));
  const Sum origin = sums_.front();
  for (Sum& sum : sums_) sum = {sum.of - origin.of, sum.of_squares - origin.of_squares};
}

Series::Moments Series::newest() const {
  const std::size_t last = count();
  Moments all = moments(last > kCountMax ? last - kCountMax : 0, last);
  if (all.count < kOwnNoise) {
    const double before = noise_ * all.mean;
    all.variance = std::max(all.variance, before * before);
  }
  return all;
}

void Series::append(double value) {
  if (sums_.empty()) sums_.push_back({});
  sums_.push_back({sums_.back().of + value, sums_.back().of_squares + value * value});
  if (count() >= 2 * kCountMax) keep_last(kCountMax);
}

void Series::restart(std::size_t kept, double noise) {
  keep_last(kept);
  noise_ = noise;
  began_ = {};
}

bool Series::add(double value) {
  if (!(value > 0 && std::isfinite(value))) return false;
  const Moments all = newest();
  const double far = kOutside * std::sqrt(all.variance) * student(kBreakErrors, all.count - 1) / kBreakErrors;
  const bool outside = all.count >= kBefore && std::abs(value - all.mean) > far;
  if (outside && outside_ != 0 && (outside_ > all.mean) == (value > all.mean)) {
    // In the middle of the first the world may have changed: then it is like neither.
    const bool alike = std::abs(outside_ - value) <= far * value / all.mean;
    append(outside_);
    append(value);
    outside_ = 0;
    restart(alike ? 2 : 1, std::sqrt(all.variance) / all.mean);
    return true;
  }
  outside_ = outside ? value : 0;
  if (outside) return false;
  append(value);
  if (began_.count == 0 && count() == kBegan) began_ = newest();
  const std::size_t kept = drifted() ? kDrifted : broken();
  if (kept != 0) restart(kept, std::sqrt(all.variance) / all.mean);
  return kept != 0;
}

bool Series::drifted() const {
  if (began_.count == 0) return false;
  const Moments now = newest();
  const double square = began_.variance / began_.count + now.variance / now.count;
  const double difference = now.mean - began_.mean;
  return std::abs(difference) > kDrift * began_.mean &&
         difference * difference > kBreakErrors * kBreakErrors * square;
}

/// How many of the newest differ from those before, at the place where they do most; 0: none.
std::size_t Series::broken() const {
  double most = kBreakErrors;
  std::size_t found = 0;
  for (const std::size_t newest : kNewest) {
    if (count() < newest + kBefore) break;
    const std::size_t at = count() - newest;
    const Moments before = moments(at > kCountMax ? at - kCountMax : 0, at);
    const Moments after = moments(at, count());
    const double noise = noise_ * before.mean;
    const double variance = std::max(before.variance, before.count < kOwnNoise ? noise * noise : 0);
    // Few new ones say little of their own spread: it is that of before, or more.
    const double square = variance / before.count + std::max(variance, after.variance) / after.count;
    const double difference = after.mean - before.mean;
    if (difference * difference <= most * most * square) continue;
    const double errors = std::abs(difference) / std::sqrt(square);
    const double widened = errors * kBreakErrors / student(kBreakErrors, before.count - 1);
    if (widened > most) most = widened, found = newest;
  }
  return found;
}

double Series::mean() const {
  return newest().mean;
}

double Series::relative_error() const {
  const Moments all = newest();
  if (all.count < 2) return std::numeric_limits<double>::infinity();
  constexpr double kTwoSided95 = 1.96;
  const double degrees = noise_ > 0 ? std::max(all.count - 1, kOwnNoise) : all.count - 1;
  return std::sqrt(all.variance / all.count) / all.mean * student(kTwoSided95, degrees) / kTwoSided95;
}

}  // namespace carya::autotune
