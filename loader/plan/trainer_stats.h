#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace carya::loader {

/// The rates of a stream's storage and trainer. They are kept across runs. 0: not measured.
struct StreamRates {
  double read_latency_s = 0;     ///< mean time of a read, from its start to its bytes
  double read_bytes_per_s = 0;   ///< the rate while at least one read was under way
  std::int64_t reads_at_s = 0;   ///< Unix time of the two numbers above
  double demand_per_s = 0;       ///< samples per second that a trainer takes when it never waits
  std::int64_t demand_at_s = 0;  ///< Unix time of the demand
};

/// Rates without impossible numbers and without times later than now. For rates that come from a file or a socket.
StreamRates checked(const StreamRates& rates, std::int64_t now_s);
/// Each number of `newer` that is known, else that of `older`.
StreamRates joined(const StreamRates& older, const StreamRates& newer);

/// A stream as its reader sees it.
struct TrainerStats {
  std::uint64_t steps = 0;       ///< batches delivered
  std::int64_t stall_ns = 0;     ///< time spent waiting in next()
  std::int64_t lifetime_ns = 0;  ///< time since the first next()
  double step_s = 0;             ///< the trainer's own time per step; 0: not known yet
  double demand_per_s = 0;       ///< samples/s that the trainer takes when it never waits; 0: not known yet
  std::uint64_t asked = 0;       ///< how often the trainer asked for a batch
  std::uint64_t ready = 0;       ///< the sum, over those times, of the batches that were ready
};

/// Measures the trainer's own time per step, from the return of next() to the next call, and its waits inside of
/// next(). The caller gives two clock readings per step.
///
/// A checkpoint or an evaluation between two steps does not belong to the demand; a wait for the device every few steps
/// does. The meter therefore takes the mean over kBlockSteps steps, and the median (the lower one of two) of the last
/// kBlocks means. The demand is known from the first whole block on. Threads: owner only.
class TrainerMeter {
 public:
  static constexpr std::size_t kBlockSteps = 16;
  static constexpr std::size_t kBlocks = 15;

  /// Record a call of next() while `ready` batches are ready. A call after waited() counts as the same request.
  void asked(std::int64_t now_ns, std::uint32_t ready);
  /// Record that next() returns without a batch.
  void waited(std::int64_t now_ns) { stall_ns_ += now_ns - asked_ns_; }
  /// Record that next() returns a batch of `rows` samples.
  void delivered(std::int64_t now_ns, std::uint64_t rows);
  /// Whether the last delivery ended a block, so that the demand may have changed.
  bool block_ended() const { return steps_ > 0 && steps_ % kBlockSteps == 0; }

  TrainerStats figures(std::int64_t now_ns) const;

 private:
  struct Block {
    std::int64_t own_ns = 0;
    std::uint64_t rows = 0;
  };
  void add_step(std::int64_t own_ns);

  std::uint64_t steps_ = 0, asked_ = 0, ready_ = 0;
  std::int64_t stall_ns_ = 0;
  std::int64_t first_ns_ = 0, asked_ns_ = 0;  // of next(); 0: not called yet
  bool has_batch_ = false;                    // the trainer works on one, since delivered_ns_
  std::int64_t delivered_ns_ = 0;
  std::uint64_t rows_ = 0;
  Block open_;                           // of timed_ % kBlockSteps steps
  std::uint64_t timed_ = 0;              // steps
  std::array<Block, kBlocks> blocks_{};  // the last whole ones, in any order
};

}  // namespace carya::loader
