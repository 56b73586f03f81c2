#pragma once

#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/poller.h"
#include "base/unique_fd.h"
#include "remote/protocol/address.h"
#include "remote/server/fair_queue.h"
#include "remote/server/server.h"
#include "remote/server/server_peer.h"

namespace carya::remote {

/// The server behind ChunkServer. What is under "Under the mutex" and the atomics is anybody's, the rest
/// belongs to the thread in run().
class ChunkServer::Loop final : public PeerHost {
 public:
  /// `listener` listens at `address`.
  Loop(const ServerOptions& options, ChunkHandler& handler, const Address& address, UniqueFd listener,
       Poller poller, std::shared_ptr<TlsContext> tls);
  ~Loop() override;

  void run();
  void stop();
  void drain();
  void answer(const Ticket& ticket, Result<Answer> answer);
  std::uint16_t port() const { return port_; }
  ServerStats stats() const;

  bool reserve(std::uint64_t bytes) override;
  void unreserve(std::uint64_t bytes) override;
  Result<Welcome> welcome(const ServerPeer& peer, const Hello& hello, const ClientUser& user) override;
  const std::vector<UserToken>& tokens() override;
  void ask(ServerPeer& peer, Question question) override;
  double free_share(ServerPeer& peer) override;
  UsageIs usage() const override;
  void cancel(ServerPeer& peer, std::uint64_t request) override;

 private:
  struct Entry {
    std::unique_ptr<ServerPeer> peer;
    std::string from;                    // its address, without the port
    bool reads = false, writes = false;  // what the poller watches
  };
  /// A question that is with the handler.
  struct Flight {
    std::uint64_t peer = 0;
    FrameType type{};
    std::uint64_t request = 0;
    std::uint64_t plan = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t result_bytes = 0;
    std::int64_t until_ns = 0;
    bool told = false;  // that it took too long; or there is nobody to be told
  };
  /// Lives in the queue of a connection as long as a result is there.
  struct Sending;

  void accept_all();
  void add_peer(UniqueFd socket, std::int64_t now_ns);
  void make_room_for_strangers();
  std::size_t welcome_count() const;
  void serve(std::uint64_t id);
  void close(std::uint64_t id, const Error& reason);
  ServerPeer* find(std::uint64_t id);

  void take_answers();
  void finish(const Flight& flight, Result<Answer> answer);
  void send_result(ServerPeer& peer, const Flight& flight, Answer answer);
  void result_sent(std::uint64_t peer, std::uint64_t bytes, std::uint64_t result_bytes);
  void refuse(ServerPeer& peer, const Question& question, const Error& error);
  void dispatch();
  bool dispatch_next();
  std::uint64_t hand_over(const ServerPeer& peer, Question& question);

  Window window_for(double share) const;
  bool claims_changed(std::int64_t now_ns);
  void share_window(std::int64_t now_ns);
  void tick(std::int64_t now_ns);
  void expire_chunks(std::int64_t now_ns);
  Status judge(ServerPeer& peer, std::int64_t now_ns) const;
  void start_draining();
  void give_back();
  void touch(std::uint64_t id) { touched_.push_back(id); }

  const ServerOptions options_;
  std::vector<UserToken> tokens_;
  ChunkHandler& handler_;
  UniqueFd listener_;
  SocketFile file_;  // of the listener, and removed before that is closed
  Poller poller_;
  const std::shared_ptr<TlsContext> tls_;  // null: plain
  const std::uint16_t port_;
  const std::int64_t tick_ms_;

  std::map<std::uint64_t, Entry> peers_;
  std::uint64_t next_peer_;
  bool peers_changed_ = false;  // since the shares were computed last
  std::uint64_t next_serial_ = 1;
  FairQueue turns_;                          // of peers that wait for the handler
  std::int64_t used_ns_ = 0;                 // of the handler's threads, for all
  std::map<std::uint64_t, Flight> flights_;  // by serial
  std::vector<std::uint64_t> touched_;       // peers that have something to send or to take
  std::atomic<bool> drains_ = false;
  std::int64_t drains_since_ns_ = 0;
  bool gave_back_ = false;
  bool accepting_ = true;

  std::atomic<bool> stopped_{false};
  std::atomic<std::uint64_t> connections_{0}, connections_so_far_{0}, refused_{0};
  /// Chunks that wait, and kHandled for each that the handler has: one number, so that a chunk on its way counts once.
  std::atomic<std::uint64_t> chunks_{0};
  static constexpr std::uint64_t kHandled = std::uint64_t{1} << 32;
  std::atomic<std::uint64_t> answered_{0}, failed_{0}, late_{0}, request_bytes_{0}, result_bytes_{0};

  Mutex mutex_;
  std::vector<std::pair<Ticket, Result<Answer>>> answers_ GUARDED_BY(mutex_);
  bool drain_wanted_ GUARDED_BY(mutex_) = false;
};

}  // namespace carya::remote
