#include "loader/engine/guest_seat.h"

#include <map>

#include "base/mutex.h"
#include "loader/engine/engine.h"

namespace carya::loader {
namespace {

/// What guests said, by their numbers.
struct Seen {
  Mutex mutex;
  std::uint64_t last GUARDED_BY(mutex) = 0;
  std::map<std::uint64_t, GuestStatus> guests GUARDED_BY(mutex);
  double cpu_s GUARDED_BY(mutex) = 0;
};

Seen& seen() {
  static Seen one;
  return one;
}

}  // namespace

Result<GuestTurn> GuestSeat::report(const GuestReport& report, bool beneath, std::uint64_t pid) {
  if (!engine_) {
    ASSIGN(engine_, Engine::shared(io::ReadEngineOptions::Kind::kAuto, beneath));
    const MutexLock lock(seen().mutex);
    number_ = ++seen().last;
  }
  ASSIGN(const GuestTurn turn, engine_->hear(number_, report));
  const double used_s = static_cast<double>(report.used_ns) * 1e-9;
  const MutexLock lock(seen().mutex);
  GuestStatus& guest = seen().guests[number_];
  guest = {pid, report.weight, report.wants, turn.threads, guest.cpu_s + used_s};
  seen().cpu_s += used_s;
  return turn;
}

GuestSeat::~GuestSeat() {
  if (!engine_) return;
  engine_->leave(number_);
  const MutexLock lock(seen().mutex);
  seen().guests.erase(number_);
}

GuestsSeen guests_seen() {
  GuestsSeen out;
  const MutexLock lock(seen().mutex);
  for (const auto& [number, guest] : seen().guests) out.guests.push_back(guest);
  out.cpu_s = seen().cpu_s;
  return out;
}

}  // namespace carya::loader
