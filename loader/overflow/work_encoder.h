#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "loader/stream/executor.h"
#include "loader/stream/stream_scheduler.h"
#include "loader/wire/encoded_chunk.h"

namespace carya::loader {

/// Encode what a worker is sent of a chunk: the records' bytes, the entries of the decode index if the chunk's cut
/// wants them, and the records' addresses if some worker reads records itself. The holder of the work calls this; no
/// lock is needed. May throw std::bad_alloc.
std::shared_ptr<const EncodedChunk> encode_work(const ChunkWork& work, const StreamParts& parts,
                                                bool with_addresses);

/// Encodes chunks on a thread of its own, in the order in which they come: neither the engine's lock nor the
/// sockets wait for it. Threads: thread-safe.
class WorkEncoder {
 public:
  /// The encoder's thread calls it once per chunk. False: there was no memory, or the encoder was stopped.
  using Told = std::function<void(std::unique_ptr<ChunkWork>, bool encoded)>;

  explicit WorkEncoder(Told told) : told_(std::move(told)) {}
  ~WorkEncoder() { end(); }

  /// Start the thread, before the first add(). May throw std::system_error: no thread.
  void begin();
  /// Take the work of a stream that is made of `parts`, which outlive the work. Returns false if there is no memory or
  /// the encoder was stopped; the work then stays with the caller.
  bool add(std::unique_ptr<ChunkWork>& work, const StreamParts& parts, bool with_addresses);
  /// Encode nothing more. Chunks that wait are soon reported as not encoded.
  void stop();
  /// Wait, after stop(), until the last report was made.
  void end();
  /// The CPU time of the encoder's thread; 0 if it does not run.
  std::int64_t cpu_ns() const;

 private:
  struct Waiting {
    std::unique_ptr<ChunkWork> work;
    const StreamParts* parts = nullptr;
    bool with_addresses = false;
  };
  void run();
  static bool encode(const Waiting& one);

  const Told told_;
  mutable Mutex mutex_;
  Condition changed_;
  std::deque<Waiting> waiting_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// The CPU time of a thread so far; 0 if it is not known.
std::int64_t cpu_ns_of(const std::thread& thread);

}  // namespace carya::loader
