#pragma once

#include <cstddef>
#include <vector>

namespace carya::autotune {

/// The quantile of Student's distribution with so many degrees of freedom that belongs to `z` of the normal
/// one: student(1.96, 4) = 2.77. Infinite for less than one. Source: Abramowitz and Stegun, 26.7.5; within 1
/// % for z <= 2 from 4 degrees on, below the true value for large z with few.
double student(double z, double degrees);

/// Measurements of one quantity while the world stays as it is: their mean, how sure it is, and whether the
/// newest still belong to the rest. They do not if two in a row lie far outside of the noise, on the same
/// side (of the two the first is left out where it is like neither), if the mean of the newest so many
/// differs from that of those before by more than 6 standard errors (Welch), or if that of all that is kept
/// differs so from where the world began: a drift too slow to be seen otherwise. One alone far outside is
/// left out. Each measurement should itself be the mean of a block of events ("batch means"), so that they
/// are near normal and nearly independent. Threads: owner only.
class Series {
 public:
  /// Adds one; what is not finite or not above 0 is left out. True: the newest differ from those before by
  /// more than noise, and only they are kept.
  bool add(double value);
  void clear() { *this = {}; }

  std::size_t count() const { return sums_.empty() ? 0 : sums_.size() - 1; }
  double mean() const;
  /// Standard error of the mean as a share of it, widened as Student's distribution is for few measurements;
  /// infinite for less than two.
  double relative_error() const;

  static constexpr std::size_t kCountMax = 256;  ///< older ones are forgotten

 private:
  // [i]: sums of the first i measurements (and of their squares), from an arbitrary origin.
  struct Sum {
    double of = 0, of_squares = 0;
  };
  struct Moments {
    double count = 0, mean = 0, variance = 0;
  };
  Moments moments(std::size_t first, std::size_t last) const;
  Moments newest() const;
  void append(double value);
  void keep_last(std::size_t count);
  std::size_t broken() const;
  bool drifted() const;
  void restart(std::size_t count, double noise);

  std::vector<Sum> sums_;
  double noise_ = 0;    // standard deviation as a share of the mean, of before the last break; 0: none
  double outside_ = 0;  // the last measurement, if it lay far outside; 0: it did not
  Moments began_;       // of the first after the last break; none before there are enough
};

}  // namespace carya::autotune
