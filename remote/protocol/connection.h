#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "remote/protocol/byte_stream.h"
#include "remote/protocol/frame.h"
#include "remote/protocol/messages.h"

namespace carya::remote {

/// Bytes to send that stay what they are until they have gone or the connection has. `owner` keeps them.
struct Payload {
  std::vector<std::span<const std::byte>> parts;
  std::shared_ptr<const void> owner;
  std::uint64_t bytes() const;
};

/// Where a payload goes that is about to arrive: parts of exactly its length in all, in order.
struct Placement {
  enum class Where : std::uint8_t { kParts, kDiscard, kLater };
  Where where = Where::kDiscard;
  std::vector<std::span<std::byte>> parts;
};

/// Who receives frames. An error ends the connection. Called in the connection's thread.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// Header and checked body are there, a payload follows. kLater: nothing more is read until resume().
  virtual Result<Placement> place(const FrameHeader& header, const std::string& body) = 0;
  /// The frame is whole. `placed`: its payload lies in the parts that place() named.
  virtual Status take(const FrameHeader& header, const std::string& body, bool placed) = 0;
};

/// Frames over a stream of bytes. A payload goes from the socket into its parts; only what came in one read
/// with the header is copied (kInputBytes at most, `copied_bytes`). Over a stream without TLS frames with a
/// payload carry a hash; one that is not that of what arrived ends the connection.
///
/// One writer: after withdraw() nothing is written into the parts of that request, also when its bytes are
/// still arriving: they are thrown away. After close() nothing is written anywhere.
///
/// Threads: one at a time calls everything, except withdraw() and the figures, which are thread-safe.
class Connection {
 public:
  static constexpr std::size_t kInputBytes = 2048;
  static constexpr std::size_t kQueueMax = 4096;  ///< frames that wait to be sent; more ends the connection

  /// Both outlive the connection, or its close().
  Connection(std::unique_ptr<ByteStream> stream, FrameSink& sink);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void set_limits(const FrameLimits& limits) { limits_ = limits; }
  /// Queues a frame; it leaves in on_ready().
  template <typename Message>
  void send(const Message& message, std::uint64_t request = 0, Payload payload = {}) {
    send_frame(Message::kType, encode(message), request, std::move(payload));
  }

  /// The socket may be ready: goes on with connecting, sends and receives what it can, a few MiB at most of
  /// each. An error says why the connection is over: close() it.
  Status on_ready();
  /// Sends what it can and no more, to say goodbye.
  void flush();
  /// Ask place() again, after it said kLater.
  Status resume();
  /// Nothing is written, sent or received from now on; payloads in the queue are let go of.
  void close();

  /// A payload of that request that is arriving, or is just being placed, goes nowhere from now on. Whether
  /// there was one. Threads: any.
  bool withdraw(std::uint64_t request);

  int fd() const { return stream_->fd(); }
  bool is_established() const { return established_; }
  bool is_paused() const { return stage_ == Stage::kLater; }
  /// What to ask the poller for, and whether to come back at once because bytes wait in TLS's own buffer.
  bool wants_read() const { return !is_paused(); }
  bool wants_write() const { return stream_->wants_write() || (established_ && !queue_.empty()); }
  bool has_buffered() const { return established_ && !is_paused() && stream_->has_buffered(); }
  std::string kind() const { return stream_->kind(); }

  std::size_t queued_frames() const { return queue_.size(); }
  std::uint64_t received_bytes() const { return received_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t copied_bytes() const { return copied_bytes_; }  ///< of payloads, on their way to their parts

 private:
  enum class Stage : std::uint8_t { kHeader, kBody, kPlace, kLater, kPayload, kHash, kWhole };
  struct Queued {
    std::string head;  // header and body
    Payload payload;
    std::string tail{};  // the hash, once it was computed
    bool hashed = false;
    std::uint64_t bytes() const { return head.size() + payload.bytes() + (hashed ? kHashBytes : 0); }
  };

  /// What a read brought, and what it had room for.
  struct Filled {
    std::size_t bytes;
    std::size_t room;
  };

  Status check_peer() const;
  void send_frame(FrameType type, std::string body, std::uint64_t request, Payload payload);
  Status write_some();
  std::size_t gather(std::vector<iovec>& parts);
  void add_hash(Queued& frame);
  void drop_sent(std::size_t bytes);

  Status read_some();
  Status use_input();
  Result<bool> step();
  Result<bool> take_header();
  bool take_body();
  void begin_payload();
  Status place();
  bool take_payload();
  Result<bool> take_hash();
  Result<Filled> fill();
  Result<Filled> fill_payload();
  void advance_parts(std::size_t bytes);

  std::unique_ptr<ByteStream> stream_;
  FrameSink& sink_;
  FrameLimits limits_;
  bool established_ = false;
  bool closed_ = false;
  bool overrun_ = false;

  std::deque<Queued> queue_;
  std::size_t front_sent_ = 0;  // bytes of queue_.front() that have gone
  std::vector<iovec> gathered_;
  const bool hashes_;  // nothing else protects what is sent
  Hasher128 sending_;

  // What is arriving. input_ holds bytes of [input_begin_, input_end_) that came with earlier ones; it is
  // empty whenever bytes are received into a body or into parts.
  Stage stage_ = Stage::kHeader;
  std::vector<std::byte> input_;
  std::size_t input_begin_ = 0, input_end_ = 0;
  FrameHeader header_;
  std::string body_;
  std::size_t body_filled_ = 0;
  std::vector<std::byte> discard_;
  std::uint64_t copied_bytes_ = 0;

  // Guards what follows, and every write into parts_: whoever holds it knows that nobody else writes there.
  std::mutex parts_mutex_;
  bool arriving_ = false;  // a payload of arriving_request_ is being placed or received
  bool withdrawn_ = false;
  std::uint64_t arriving_request_ = 0;
  std::vector<std::span<std::byte>> parts_;  // what is still to be filled; none: discard
  std::uint64_t left_bytes_ = 0;             // of the payload
  Hasher128 arrived_;                        // of the frame so far, where it has a hash

  std::atomic<std::uint64_t> received_bytes_{0};
  std::atomic<std::uint64_t> sent_bytes_{0};
};

}  // namespace carya::remote
