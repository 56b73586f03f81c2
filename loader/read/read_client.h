#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "io/read/read_engine.h"
#include "loader/read/read_buffer.h"
#include "loader/read/read_list.h"
#include "loader/read/read_op.h"

namespace carya::loader {

class ReadClient;

/// Reads that belong together. They fill one buffer and end one by one. A client may derive from it to find its own
/// record of the reads.
struct ReadBatch {
  ReadBatch() = default;
  ReadBatch(const ReadBatch&) = delete;
  ReadBatch& operator=(const ReadBatch&) = delete;
  virtual ~ReadBatch() = default;

  ReadClient* client = nullptr;  ///< null: the batch was given up; late answers only free its memory
  std::vector<ReadOp> reads{};
  std::uint32_t open = 0;  ///< reads that have not ended
  bool unwanted = false;   ///< nobody needs the bytes any more: a read that fails is not retried
  ReadBuffer buffer{};     ///< the memory that the reads write to
  /// Set if the batch was given up: the owner of the paths in its requests.
  std::shared_ptr<const void> keeps{};
};

/// The consequences of a call to a client: the reads to start, and how many threads can begin to compute.
struct Outbox {
  std::vector<ReadOp*> reads;
  std::uint32_t runnable = 0;
};

/// A user of the read scheduler. Threads: all calls are made under the engine's lock.
class ReadClient {
 public:
  /// `number` belongs to no other client of this process. A read without an answer is given up after `io_timeout_ns`; a
  /// read that fails is retried during that time.
  ReadClient(std::uint64_t number, std::int64_t io_timeout_ns)
      : number_(number), io_timeout_ns_(io_timeout_ns) {}
  ReadClient(const ReadClient&) = delete;
  ReadClient& operator=(const ReadClient&) = delete;
  virtual ~ReadClient() = default;

  std::uint64_t number() const { return number_; }
  std::int64_t io_timeout_ns() const { return io_timeout_ns_; }

  /// A read has ended for good. Its bytes are in place, or `error` says why they cannot be had.
  virtual void read_done(ReadOp& op, const io::ReadCompletion& completion, std::optional<Error> error,
                         Outbox& out) = 0;
  /// Storage does not answer the read `op`. The client drops the whole batch, sets its `client` to null and returns it.
  /// The caller keeps it, with the memory that storage may still write to, until all its reads have ended.
  virtual std::unique_ptr<ReadBatch> give_up(ReadOp& op, const Error& error, Outbox& out) = 0;
  /// A read has failed and will be tried again.
  virtual void note_retry() = 0;
  /// How many reads the client wants in flight at the same time.
  virtual std::uint32_t reads_wanted() const = 0;

  // Fields of the read scheduler.
  std::int64_t answered_ns = 0;  ///< when storage last answered a read of this client, whatever it said
  ReadList queued;               ///< reads that wait to be started, oldest first
  std::uint32_t in_flight = 0;   ///< reads that storage has and has not answered
  bool has_turn = false;         ///< the client is in ReadTurns, before next_turn
  ReadClient* next_turn = nullptr;

 private:
  const std::uint64_t number_;
  const std::int64_t io_timeout_ns_;
};

}  // namespace carya::loader
