#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "loader/host/host.h"

namespace carya::loader {

/// A stream's place among the jobs that take turns.
struct Turn {
  std::uint64_t job = 0;  ///< 0: the stream is a job of its own
  double weight = 1;      ///< of the job, from now on
};

/// Whose chunk is computed next. The thread times of jobs that always have a chunk ready are in the ratio of their
/// weights, however long their chunks are, and each comes as often as its weight says: of the jobs that have had at most
/// what is due to them, the one whose next chunk is due first. Of a job's streams it is the one that has had the least. A
/// job that had no chunk ready catches up by at most kCreditNs: it had no use for the rest. Source: "earliest eligible
/// virtual deadline first" (Stoica and Abdel-Wahab, 1995).
///
/// From its begin on a chunk counts with the mean of its stream, from its end on with what it took. Pure: the same
/// calls give the same turns. Threads: owner only.
///
/// A guest is a job whose work is done by other processes of this machine. It is a stream like others, whose chunks are
/// times in which a thread leaves its core to them, and its index is behind those of all other streams.
class Turns {
 public:
  /// Add a stream. Its index is the number of streams before, guests left out. May throw std::bad_alloc; then no stream
  /// is added.
  void add(const Turn& turn);
  /// Add a guest, behind all streams. May throw std::bad_alloc; then none is added.
  void add_guest(double weight);
  /// The streams behind it move up by one.
  void remove(std::size_t index);
  std::size_t size() const { return streams_.size(); }  ///< guests too

  /// The index of the stream whose turn it is, among those for which `ready(index)` holds; none if there is none. Of
  /// equals it is the one that waits longest. Linear in the number of streams.
  template <typename Ready>
  std::optional<std::size_t> next(Ready ready) {
    ask_all(ready);
    return chosen();
  }
  /// Whether the job of this stream has had no more than is due to it, and kAheadNs, among those for which `ready(index)`
  /// holds and itself. Where there is no other one, it has, and is ahead by at most kCreditNs from now on.
  template <typename Ready>
  bool is_due(std::size_t index, Ready ready) {
    ask_all([&](std::size_t at) { return at == index || ready(at); });
    return is_due_now(index);
  }
  /// A chunk of the stream begins. Returns the ns that it is expected to take.
  double begin(std::size_t index);
  /// It ended: it took a thread `took_ns`, and `blocked_ns` besides in which the thread neither computed nor could have.
  /// `expected_ns` is what begin() returned. What blocks a stream again and again counts in full; what did so once, as a
  /// lock that another thread of the process had, counts as kSurpriseNs and a few of its chunks at most.
  void end(std::size_t index, double expected_ns, double took_ns, double blocked_ns = 0);
  /// Its job had `ns` of a thread besides, by the weight that it has from now on.
  void charge(std::size_t index, double ns, double weight);

  static constexpr double kCreditNs = 20e6;
  static constexpr double kGuestCreditNs = 100e6;  ///< guests are heard of now and then
  static constexpr double kAheadNs = 4e6;
  static constexpr double kSurpriseNs = 5e6;

 private:
  // Times are in ns of a thread: of a stream as they are, of a job by its weight. `had`: where the next turn begins if
  // it was not idle meanwhile.
  struct Job {
    std::uint64_t number = 0;
    double weight = 1;
    std::size_t streams = 0;
    double had = 0;
    double credit_ns = kCreditNs;
    double now = 0;                      // where its streams are
    std::optional<std::size_t> ready{};  // the stream that is the first of it, in next()
  };
  struct Stream {
    std::size_t job = 0;  // index
    double had = 0;
    double mean_ns = 0;  // of a chunk; 0: none has ended
    double expected_ns() const;
  };
  double begins(const Job& job) const;
  double begins(const Stream& stream) const;
  template <typename Ready>
  void ask_all(Ready ready) {
    asked_.clear();
    for (std::size_t i = 0; i < streams_.size(); ++i)
      if (const std::size_t at = (turn_ + i) % streams_.size(); ready(at)) ask(at);
  }
  std::size_t join(std::uint64_t job, double weight);
  void ask(std::size_t index);
  double due() const;
  std::optional<std::size_t> chosen();
  bool is_due_now(std::size_t index);

  std::vector<Job> jobs_;
  std::vector<Stream> streams_;  // guests are the last ones
  std::size_t guests_ = 0;
  std::vector<std::size_t> asked_;  // jobs that have a stream ready, in next()
  double now_ = 0;                  // where the jobs are: the mean of those that had one ready, by weight
  std::size_t turn_ = 0;            // the stream behind the last one
};

}  // namespace carya::loader
