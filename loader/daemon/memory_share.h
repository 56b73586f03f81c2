#pragma once

namespace carya::loader {

/// How much of their memory jobs may use: less while the machine is short of it. Read-ahead shrinks first;
/// only when there is next to none left, slots do. They grow back in the other order.
class MemoryShare {
 public:
  /// Call about once a second with the pressure in percent. True when a share changed.
  bool follow(double pressure);
  double read_ahead() const { return read_ahead_; }
  double slots() const { return slots_; }

 private:
  double read_ahead_ = 1, slots_ = 1;
};

}  // namespace carya::loader
