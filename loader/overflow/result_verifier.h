#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "loader/stream/executor.h"
#include "loader/wire/worker_plan.h"

namespace carya::loader {

/// Computes chunks that workers have computed, and compares the rows. It has a thread of its own, so that neither the
/// stream nor the sockets wait. Threads: thread-safe.
class ResultVerifier {
 public:
  enum class Verdict {
    kSame,
    kDiffers,  ///< the rows of this machine lie in the chunk's places now, unless it found broken ones
    kUnknown,  ///< there was no memory, or the verifier was stopped
  };
  /// Called once per chunk. `rows_are_ours`: this machine computed the rows that lie in the chunk's places.
  using Told = std::function<void(std::unique_ptr<ChunkWork>, Verdict, bool rows_are_ours)>;

  explicit ResultVerifier(Told told) : told_(std::move(told)) {}
  ~ResultVerifier() { end(); }

  /// Start the thread, before the first add(). May throw std::system_error: no thread.
  void begin();
  void add(std::unique_ptr<ChunkWork> work);
  /// Compare nothing more. Chunks that wait are soon reported as kUnknown, and chunks that come later at once.
  void stop();
  /// Wait, after stop(), until the last report was made.
  void end();

 private:
  void run();
  std::pair<Verdict, bool> compare(const ChunkWork& work);
  std::pair<Verdict, bool> compute(const ChunkWork& work);

  const Told told_;
  transforms::Scratch scratch_;     // the thread's
  std::vector<std::byte> payload_;  // the same, as are these
  std::vector<std::byte> rows_;
  Mutex mutex_;
  Condition changed_;
  std::deque<std::unique_ptr<ChunkWork>> waiting_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace carya::loader
