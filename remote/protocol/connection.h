#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "remote/protocol/byte_stream.h"
#include "remote/protocol/frame.h"
#include "remote/protocol/messages.h"

namespace carya::remote {

/// The longest body of a frame between a host and a worker, in bytes.
inline constexpr std::uint32_t kBodyBytesMax = 256 << 10;

/// Bytes to send. `owner` keeps them alive; nobody changes them until they are sent or the connection has ended.
struct Payload {
  std::vector<std::span<const std::byte>> parts;
  std::shared_ptr<const void> owner;
  std::uint64_t bytes() const;
};

/// Where to write a payload that is about to arrive: parts, in order, whose lengths add up to the payload's.
struct ReceiveTarget {
  enum class Where : std::uint8_t { kParts, kDiscard, kLater };
  Where where = Where::kDiscard;
  std::vector<std::span<std::byte>> parts;
};

/// Receives frames. An error ends the connection. Called in the connection's thread.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// Header and body have arrived and were checked; a payload follows. With kLater nothing is read until resume().
  virtual Result<ReceiveTarget> place(const FrameHeader& header, const std::string& body) = 0;
  /// The frame has arrived. `placed`: its payload lies in the parts that place() named.
  virtual Status take(const FrameHeader& header, const std::string& body, bool placed) = 0;
};

/// Sends and receives frames over a stream of bytes.
///
/// A payload is read from the socket into its parts; only the bytes that came in one read with the header are copied
/// (kInputBytes at most, `copied_bytes`). Over a stream without TLS a frame with a payload carries a hash, and a wrong
/// hash ends the connection.
///
/// One writer: after withdraw() nothing is written into the parts of that request; its bytes that still arrive are
/// discarded. After close() nothing is written anywhere.
///
/// Threads: one thread at a time, except withdraw(), received_bytes() and sent_bytes(), which are thread-safe.
class Connection {
 public:
  static constexpr std::size_t kInputBytes = 2048;
  static constexpr std::size_t kQueueMax =
      4096;  ///< frames that may wait to be sent; one more ends the connection

  /// `sink` must live until close() or the end of the connection.
  Connection(std::unique_ptr<ByteStream> stream, FrameSink& sink);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void set_limits(const FrameLimits& limits) { limits_ = limits; }
  /// Queue a frame; on_ready() sends it.
  template <typename Message>
  void send(const Message& message, std::uint64_t request = 0, Payload payload = {}) {
    send_frame(Message::kType, encode(message), request, std::move(payload));
  }

  /// Continue to connect, send and receive as far as the socket is ready, by a few MiB at most in each direction. An
  /// error says why the connection has ended; call close() then.
  Status on_ready();
  /// Send what the socket takes at once, for a last message before close().
  void flush();
  /// Call place() again, after it returned kLater.
  Status resume();
  /// Write, send and receive nothing from now on, and drop the payloads in the queue.
  void close();

  /// Discard the payload of a request that is arriving or being placed. Returns whether there was one. Threads: any.
  bool withdraw(std::uint64_t request);

  int fd() const { return stream_->fd(); }
  bool is_paused() const { return stage_ == Stage::kLater; }
  /// What to watch the socket for, and whether to call on_ready() at once because bytes wait in the buffer of TLS.
  bool wants_read() const { return !is_paused(); }
  bool wants_write() const { return stream_->wants_write() || (established_ && !queue_.empty()); }
  bool has_buffered() const { return established_ && !is_paused() && stream_->has_buffered(); }
  std::string kind() const { return stream_->kind(); }
  std::vector<std::string> peer_uris() const { return stream_->peer_uris(); }

  std::size_t queued_frames() const { return queue_.size(); }
  std::uint64_t received_bytes() const { return received_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t copied_bytes() const {
    return copied_bytes_;
  }  ///< bytes of payloads that were copied on the way to their parts

 private:
  enum class Stage : std::uint8_t { kHeader, kBody, kPlace, kLater, kPayload, kHash, kWhole };
  struct Queued {
    std::string head;  // header and body
    Payload payload;
    std::string tail{};  // the hash, once it was computed
    bool hashed = false;
    std::uint64_t bytes() const { return head.size() + payload.bytes() + (hashed ? kHashBytes : 0); }
  };

  /// How many bytes a read brought, and how many it had room for.
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
  void advance_parts(std::size_t bytes) REQUIRES(parts_mutex_);

  std::unique_ptr<ByteStream> stream_;
  FrameSink& sink_;
  FrameLimits limits_;
  bool established_ = false;
  bool closed_ = false;
  bool overrun_ = false;

  std::deque<Queued> queue_;
  std::size_t front_sent_ = 0;  // bytes of queue_.front() that were sent
  std::vector<iovec> gathered_;
  const bool hashes_;  // frames with a payload carry a hash: there is no TLS
  Hasher128 sending_;

  // The frame that is arriving. input_ holds in [input_begin_, input_end_) bytes that came with earlier ones. That
  // range is empty whenever bytes are received into a body or into parts.
  Stage stage_ = Stage::kHeader;
  std::vector<std::byte> input_;
  std::size_t input_begin_ = 0, input_end_ = 0;
  FrameHeader header_;
  std::string body_;
  std::size_t body_filled_ = 0;
  std::vector<std::byte> discard_;
  std::uint64_t copied_bytes_ = 0;

  // Held for every write into the memory of parts_ too: whoever holds it knows that nobody else writes there.
  Mutex parts_mutex_;
  bool arriving_ GUARDED_BY(parts_mutex_) =
      false;  // a payload of arriving_request_ is being placed or received
  bool withdrawn_ GUARDED_BY(parts_mutex_) = false;
  std::uint64_t arriving_request_ GUARDED_BY(parts_mutex_) = 0;
  std::vector<std::span<std::byte>> parts_
      GUARDED_BY(parts_mutex_);                            // the parts still to be filled; empty: discard
  std::uint64_t left_bytes_ GUARDED_BY(parts_mutex_) = 0;  // bytes of the payload that are still to come
  Hasher128 arrived_ GUARDED_BY(parts_mutex_);  // the hash of the frame so far, if the frame has one

  std::atomic<std::uint64_t> received_bytes_{0};
  std::atomic<std::uint64_t> sent_bytes_{0};
};

}  // namespace carya::remote
