#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "loader/stream/executor.h"
#include "loader/wire/worker_plan.h"

namespace carya::loader {

/// Chunks that came home computed are computed here too, as their worker should have, and compared: on a
/// thread of its own, so that neither the stream nor the sockets wait. Threads: thread-safe.
class ChunkCheck {
 public:
  enum class Verdict {
    kSame,
    kDiffers,  ///< the rows of this machine lie in the chunk's places now, unless it found broken ones
    kUnknown,  ///< no memory, or stopped
  };
  /// Told once per chunk. `rows_are_ours`: what lies in its places was computed by this machine.
  using Told = std::function<void(std::unique_ptr<RemoteWork>, Verdict, bool rows_are_ours)>;

  explicit ChunkCheck(Told told) : told_(std::move(told)) {}
  ~ChunkCheck() { end(); }

  /// Before the first add(). May throw std::system_error: no thread.
  void begin();
  void add(std::unique_ptr<RemoteWork> work);
  /// What waits is told as unknown, soon; what comes later, at once.
  void stop();
  /// After stop(): nothing is told any more once this has returned.
  void end();

 private:
  void run();
  std::pair<Verdict, bool> compare(const RemoteWork& work);
  std::pair<Verdict, bool> compute(const RemoteWork& work);

  const Told told_;
  transforms::Scratch scratch_;     // the thread's
  std::vector<std::byte> payload_;  // the same, as are these
  std::vector<std::byte> rows_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<RemoteWork>> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace carya::loader
