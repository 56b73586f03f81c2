#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "autotune/placement/placement.h"

namespace carya::autotune {

/// A choice beside another, and why it lost.
struct Neighbour {
  std::string name;  ///< "one worker more", "one worker less", "cut after 2 ops", "no workers", "all remote"
  Choice choice;
  std::string why;  ///< "3.1 % more per sample", "the trainer would wait 12 % of the time", ...
};

/// What lies beside `chosen`: a worker more (where there can be one; also beyond what the goal allows) and
/// less, the cuts before and after its own with their best number of workers, no workers at all, and all
/// samples remote. Numbers must have been checked. Pure.
std::vector<Neighbour> neighbours(const PlacementInputs& facts, const Prices& prices,
                                  const PlacementGoal& goal, const Choice& chosen, bool reachable);

/// A short text with numbers, as printf writes them.
template <typename... Numbers>
std::string worded(const char* format, Numbers... numbers) {
  char buffer[200];
  std::snprintf(buffer, sizeof buffer, format, numbers...);
  return buffer;
}

/// A choice in words and numbers: "3 workers from the cut after 2 ops, 61 % of the samples; ...".
std::string choice_text(const PlacementInputs& facts, const Choice& choice);

}  // namespace carya::autotune
