#include "loader/daemon/memory_share.h"

#include <algorithm>

namespace carya::loader {
namespace {

// Percent of the time in which something waited for memory. Between them nothing is changed.
constexpr double kPressureHigh = 10, kPressureLow = 1;
constexpr double kReadAheadLeast = 1.0 / 64, kSlotsLeast = 1.0 / 16;

}  // namespace

bool MemoryShare::follow(double pressure) {
  const double read_ahead = read_ahead_, slots = slots_;
  if (pressure >= kPressureHigh) {
    if (read_ahead > kReadAheadLeast)
      read_ahead_ = std::max(kReadAheadLeast, read_ahead / 2);
    else
      slots_ = std::max(kSlotsLeast, slots / 2);
  } else if (pressure <= kPressureLow) {
    if (slots < 1)
      slots_ = std::min(1.0, slots * 2);
    else
      read_ahead_ = std::min(1.0, read_ahead * 2);
  }
  return read_ahead_ != read_ahead || slots_ != slots;
}

}  // namespace carya::loader
