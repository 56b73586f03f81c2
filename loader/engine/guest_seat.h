#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "loader/engine/guests.h"

namespace carya::loader {

class Engine;

/// A guest's place in the turns of this process's engine, from its first report on. Threads: one at a time.
class GuestSeat {
 public:
  GuestSeat() = default;
  ~GuestSeat();
  GuestSeat(const GuestSeat&) = delete;
  GuestSeat& operator=(const GuestSeat&) = delete;

  /// The next report is to come within some milliseconds, or 100 where nobody else wants the cores.
  /// `beneath`: as the jobs read; `pid`: of who reports. Errors: those of Engine::shared, kExhausted.
  Result<GuestTurn> report(const GuestReport& report, bool beneath, std::uint64_t pid);

 private:
  std::uint64_t number_ = 0;
  std::shared_ptr<Engine> engine_;
};

/// All guests of this process, in the order in which they came, and the CPU time that they and earlier ones had, in s.
/// Threads: thread-safe.
struct GuestsSeen {
  std::vector<GuestStatus> guests;
  double cpu_s = 0;
};
GuestsSeen guests_seen();

}  // namespace carya::loader
