#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace carya::io {

/// How many requests a store may have at the same time: as many as it takes to get all that it gives, and no more.
///
/// 1. By Little's law that many requests are under way as are answered in a second, times the seconds that each takes where
///    nobody waits for another one. Requests are counted by rounds, each of as many answers as there were requests. Twice
///    what a round needed may be under way in the next: where that gives no more, it is enough, and the queue is one.
/// 2. What a request takes where nobody waits is learned, by size: in the first second and every 30 s two rounds have a
///    quarter of the requests, of which the first drains queues and the second is measured. A round that takes less in the
///    mean moves it too. It is learned at once where the third round in turn needs far fewer: either there is a queue, or each
///    request takes longer than it did.
/// 3. Where too few reads were asked for, a round says only that more would be of use, never less.
/// 4. A store that is busy halves a ceiling, once in 200 ms; it grows by one for as many good answers as are allowed.
///
/// Pure. Threads: owner only.
/// Source: Little, "A Proof for the Queuing Formula L = λW" (1961); Cardwell et al., "BBR" (ACM Queue, 2016); Chiu and
/// Jain, "Analysis of the Increase and Decrease Algorithms" (1989).
class RequestWindow {
 public:
  explicit RequestWindow(std::uint32_t most);

  /// 1 or more.
  std::uint32_t allowed() const;
  /// A request for `bytes` ended well, `took_ns` after it was begun.
  void note_answered(std::int64_t now_ns, std::int64_t took_ns, std::uint64_t bytes);
  /// The store says that it is busy.
  void note_busy(std::int64_t now_ns);
  /// More requests were allowed than there were reads for.
  void note_idle() { idle_ = true; }

  static constexpr double kFirst = 16, kLeast = 4;
  static constexpr std::int64_t kLearnFirstNs = 1'000'000'000, kLearnEveryNs = 30'000'000'000;
  static constexpr std::int64_t kHalveAgainNs = 200'000'000;

 private:
  /// Requests of 2^n bytes and more.
  struct Size {
    double alone_ns = 0;  // what one takes where nobody waits; 0: unknown
    double sum_ns = 0;    // of this round
    std::uint32_t count = 0;
  };
  void end_round(std::int64_t now_ns);

  const double most_;
  double wanted_;   // by what rounds needed
  double ceiling_;  // by what the store bears
  std::int64_t halved_ns_ = 0;
  // The round.
  std::int64_t began_ns_ = 0;  // 0: none was answered yet
  std::uint32_t answers_ = 0, answers_wanted_ = 0;
  bool idle_ = false;          // in it too few reads were asked for, or the store was busy
  int learning_ = 0;           // 2: queues drain; 1: what requests take alone is measured
  std::int64_t learn_ns_ = 0;  // when that is due
  int shrunk_ = 0;             // rounds in turn that needed far fewer
  std::array<Size, 32> sizes_{};
};

/// How many tries of reads that failed a store may have: a token each, which a good answer gives back with a tenth of
/// another. Where none are left, one try every 250 ms looks whether the store is back. So a store that is down is asked
/// little, and one that is back is soon asked for all. Pure. Threads: owner only.
class RetryBudget {
 public:
  /// Whether a try may begin now; then it has.
  bool take(std::int64_t now_ns);
  /// A request ended well; `again`: it was a try.
  void note_good(bool again);
  /// When a try may begin at the latest; `now_ns` or before: at once.
  std::int64_t due_ns() const { return tokens_ >= 1 ? 0 : looked_ns_ + kLookNs; }

  static constexpr double kShare = 0.1, kTokensMax = 32;
  static constexpr std::int64_t kLookNs = 250'000'000;

 private:
  double tokens_ = kTokensMax;
  std::int64_t looked_ns_ = 0;
};

}  // namespace carya::io
