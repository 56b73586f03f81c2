#include "loader/engine/guest_seat.h"

#include <atomic>

#include "loader/engine/engine.h"

namespace carya::loader {

Result<GuestTurn> GuestSeat::report(const GuestReport& report, bool beneath) {
  static std::atomic<std::uint64_t> numbers{0};
  if (!engine_) {
    ASSIGN(engine_, Engine::shared(io::ReadEngineOptions::Kind::kAuto, beneath));
    number_ = ++numbers;
  }
  return engine_->hear(number_, report);
}

GuestSeat::~GuestSeat() {
  if (engine_) engine_->leave(number_);
}

}  // namespace carya::loader
