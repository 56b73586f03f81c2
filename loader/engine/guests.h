#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loader/engine/turns.h"

namespace carya::loader {

/// What a guest may do until its next report.
struct GuestTurn {
  std::uint32_t threads = 0;  ///< that it may keep busy
  bool alone = true;          ///< nobody else wants the cores
};

/// What a guest says of itself: a job whose work is done by other processes of this machine, as Python functions are.
struct GuestReport {
  double weight = 1;
  std::uint64_t used_ns = 0;  ///< CPU time of its processes since the last report
  std::uint32_t wants = 0;    ///< the threads that it would keep busy now; 0: it has nothing to do
};

/// A guest as `carya status` shows it.
struct GuestStatus {
  std::uint64_t pid = 0;      ///< of who reports for it
  double weight = 1;          ///< as its last report said, like `wants`
  std::uint32_t wants = 0;    ///< the threads that it would keep busy
  std::uint32_t threads = 0;  ///< those that it may
  double cpu_s = 0;           ///< CPU time of its processes so far
};

/// The guests of an engine: how many threads each may keep busy beside the jobs that the engine computes, and how many of
/// the engine's threads leave their cores to it. Pure. Threads: owner only.
class Guests {
 public:
  /// `turns`: those of the engine, where guests stand behind all streams.
  explicit Guests(Turns& turns) : turns_(turns) {}

  /// A report of the guest, whom the first one makes known, on a machine of `cores`. Returns its place. May throw
  /// std::bad_alloc.
  std::size_t hear(std::uint64_t guest, const GuestReport& report, std::uint32_t cores, std::int64_t now_ns);
  void leave(std::uint64_t guest);
  /// A stream had a thread until then.
  void note_others(std::int64_t now_ns) { others_ns_ = now_ns; }
  bool empty() const { return guests_.empty(); }

  /// What the guest at `place` may do now, on `cores`: as many threads as it likes while it has had no more than is due to
  /// it, and else what the others leave. `ready(index)`, of streams: it would keep more threads busy than there are.
  template <typename Ready>
  GuestTurn turn(std::size_t place, std::uint32_t cores, std::int64_t now_ns, Ready ready) {
    const std::size_t streams = turns_.size() - guests_.size();
    bool any = false;
    const bool is_due = turns_.is_due(streams + place, [&](std::size_t i) {
      if (i >= streams) return wants(i - streams, now_ns) > 0;
      const bool waits = ready(i);
      any |= waits;
      return waits;
    });
    return turn_of(place, cores, now_ns, is_due, any);
  }
  /// Whether the guest at `place` has a use for one more core.
  bool borrows(std::size_t place, std::int64_t now_ns) const {
    return !guests_[place].waits && wants(place, now_ns) > guests_[place].lent;
  }
  /// A thread leaves its core to the guest at `place`. Returns what ends it.
  struct Loan {
    std::uint64_t guest = 0;
    double expected_ns = 0;
  };
  Loan lend(std::size_t place);
  /// The thread is back. Nothing happens if the guest has gone.
  void take_back(const Loan& loan, std::int64_t lasted_ns);

  /// A guest that is silent for so long has nothing to do.
  static constexpr std::int64_t kSilentNs = 200'000'000;
  /// Where there are guests only, who may keep threads busy and wants to is taken to use this much of each at least,
  /// whatever it says. Nobody is taken to use more than all cores for the time that passed.
  static constexpr double kUsedMin = 0.25;
  /// A stream that had a thread within this time wants the cores.
  static constexpr std::int64_t kApartNs = 100'000'000;
  /// A core is left for so long.
  static constexpr std::int64_t kLoanNs = 2'000'000;

 private:
  struct Guest {
    std::uint64_t number = 0;
    std::uint32_t wants = 0;
    bool waits = false;         // it was told to, and does until its next report
    std::uint32_t lent = 0;     // cores that threads leave to it now
    std::uint64_t lent_ns = 0;  // of them, since its last report; charged already
    std::int64_t heard_ns = 0;
  };
  std::size_t find(std::uint64_t guest) const;
  std::size_t index_of(std::size_t place) const { return turns_.size() - guests_.size() + place; }
  std::uint32_t wants(std::size_t place, std::int64_t now_ns) const;
  GuestTurn turn_of(std::size_t place, std::uint32_t cores, std::int64_t now_ns, bool is_due,
                    bool others_wait);

  Turns& turns_;
  std::vector<Guest> guests_;
  std::int64_t others_ns_ = 0;  // when a stream last had a thread
};

}  // namespace carya::loader
