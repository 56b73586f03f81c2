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
class Turns {
 public:
  /// Add a stream. Its index is the number of streams before. May throw std::bad_alloc; then no stream is added.
  void add(const Turn& turn);
  /// The streams behind it move up by one.
  void remove(std::size_t index);

  /// The index of the stream whose turn it is, among those for which `ready(index)` holds; none if there is none. Of
  /// equals it is the one that waits longest. Linear in the number of streams.
  template <typename Ready>
  std::optional<std::size_t> next(Ready ready) {
    asked_.clear();
    for (std::size_t i = 0; i < streams_.size(); ++i)
      if (const std::size_t at = (turn_ + i) % streams_.size(); ready(at)) ask(at);
    return chosen();
  }
  /// A chunk of the stream begins. Returns the ns that it is expected to take.
  double begin(std::size_t index);
  /// It ended, and took a thread `took_ns`. `expected_ns` is what begin() returned.
  void end(std::size_t index, double expected_ns, double took_ns);

  static constexpr double kCreditNs = 20e6;

 private:
  // Times are in ns of a thread: of a stream as they are, of a job by its weight. `had`: where the next turn begins if
  // it was not idle meanwhile.
  struct Job {
    std::uint64_t number = 0;
    double weight = 1;
    std::size_t streams = 0;
    double had = 0;
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
  void ask(std::size_t index);
  std::optional<std::size_t> chosen();

  std::vector<Job> jobs_;
  std::vector<Stream> streams_;
  std::vector<std::size_t> asked_;  // jobs that have a stream ready, in next()
  double now_ = 0;                  // where the jobs are: the mean of those that had one ready, by weight
  std::size_t turn_ = 0;            // the stream behind the last one
};

}  // namespace carya::loader
