#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "loader/plan/stream_planner.h"

namespace carya::loader {

/// Chooses the plan of a chunk in place of the present plan; null: the present plan. May throw std::bad_alloc.
using PlanChooser = std::function<std::shared_ptr<PlanInUse>()>;

/// Which plan computes a stream's chunks, and the costs of each plan. All plans of a stream give the same bits.
/// Threads: owner only.
class PlanLedger {
 public:
  explicit PlanLedger(std::shared_ptr<PlanInUse> first, PlanChooser chooser = {});

  /// The plan of chunks that are taken now.
  const std::shared_ptr<PlanInUse>& present() const { return present_; }
  /// The plan for a chunk that a thread takes. Asks the chooser, if there is one. May throw std::bad_alloc.
  std::shared_ptr<PlanInUse> next();
  /// Make `plan` the present plan. A plan whose order of ops ran before continues that plan's profile. May throw
  /// std::bad_alloc.
  void set(std::shared_ptr<PlanInUse> plan);
  /// The cost of each order of ops that ran in this stream, the present one last.
  std::vector<OrderProfile> measured() const;
  /// The stages of all plans that ran, added up by name.
  std::vector<transforms::OpProfile> ops() const;
  std::uint64_t switches() const { return switches_; }

 private:
  std::shared_ptr<PlanInUse> present_;
  std::vector<std::shared_ptr<PlanInUse>> plans_;  // every order of ops that ran, once
  const PlanChooser chooser_;
  std::uint64_t switches_ = 0;
};

}  // namespace carya::loader
