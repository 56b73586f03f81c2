#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace carya::loader {

/// What a stream met beside the cost of its ops. 0: nobody measured it. Kept across runs.
struct StreamRates {
  double read_latency_s = 0;     ///< mean of a read, from its start to its bytes
  double read_bytes_per_s = 0;   ///< while at least one read was under way
  std::int64_t reads_at_s = 0;   ///< Unix time of the two
  double demand_per_s = 0;       ///< samples a trainer takes when it never waits
  std::int64_t demand_at_s = 0;  ///< its Unix time
};

/// Numbers that cannot be are left out, and no time is later than now. For what comes from a file or a
/// socket.
StreamRates checked(const StreamRates& rates, std::int64_t now_s);
/// Where `newer` knows something, that; else what `older` knows.
StreamRates joined(const StreamRates& older, const StreamRates& newer);

/// A stream as its reader sees it.
struct TrainerFigures {
  std::uint64_t steps = 0;       ///< batches delivered
  std::int64_t stall_ns = 0;     ///< waited in next()
  std::int64_t lifetime_ns = 0;  ///< since the first next()
  double step_s = 0;             ///< the trainer's own time per step; 0: not known yet
  double demand_per_s = 0;       ///< samples/s it takes when it never waits; 0: not known yet
  std::uint64_t asked = 0;       ///< how often it came for a batch
  std::uint64_t ready = 0;       ///< batches that lay ready then: the sum over all times
};

/// Times the trainer between the batches: its own time per step, from the return of next() to the next call,
/// and what it waited inside. Two clock readings a step, given by the caller.
///
/// A checkpoint or an evaluation between two steps is none of its demand, while a wait for the device every
/// few steps is: so the mean is taken of each kBlockSteps steps, and of the last kBlocks such means the
/// median (the lower one of two). Known from the first whole block on. Threads: owner only.
class TrainerMeter {
 public:
  static constexpr std::size_t kBlockSteps = 16;
  static constexpr std::size_t kBlocks = 15;

  /// next() is called while so many batches lie ready. Again after `waited` it is the same coming.
  void asked(std::int64_t now_ns, std::uint32_t ready);
  /// It returns without a batch.
  void waited(std::int64_t now_ns) { stall_ns_ += now_ns - asked_ns_; }
  /// It returns a batch of so many samples.
  void delivered(std::int64_t now_ns, std::uint64_t rows);
  /// Whether the last delivery may have changed what is known of the demand.
  bool block_ended() const { return steps_ > 0 && steps_ % kBlockSteps == 0; }

  TrainerFigures figures(std::int64_t now_ns) const;

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
