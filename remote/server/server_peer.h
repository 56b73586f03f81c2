#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "remote/protocol/connection.h"
#include "remote/protocol/heartbeat.h"
#include "remote/protocol/messages.h"
#include "remote/server/server.h"

namespace carya::remote {

class ServerPeer;

/// What a client has asked for, whole.
struct Question {
  FrameType type{};  // kRequest or kRegister
  std::uint64_t request = 0;
  Asked asked;
};

/// What a client's connection needs of the server.
class PeerHost {
 public:
  virtual ~PeerHost() = default;
  /// Room for a payload; false: later.
  virtual bool reserve(std::uint64_t bytes) = 0;
  virtual void unreserve(std::uint64_t bytes) = 0;
  /// The answer to a client that may come. An error is told to it.
  virtual Result<Welcome> welcome(const ServerPeer& peer, const Hello& hello, const ClientUser& user) = 0;
  /// The secrets of clients as they are now; see ServerOptions.
  virtual const std::vector<UserToken>& tokens() = 0;
  /// Its payload's room is the host's from now on.
  virtual void ask(ServerPeer& peer, Question question) = 0;
  /// How much of the server the client may count on.
  virtual double free_share(ServerPeer& peer) = 0;
  /// Who uses the host.
  virtual UsageIs usage() const = 0;
  /// It does not want that request's result.
  virtual void cancel(ServerPeer& peer, std::uint64_t request) = 0;
};

/// One client of a server: what it may say when, its window and its plans.
/// Threads: the server's.
class ServerPeer final : public FrameSink {
 public:
  static constexpr std::size_t kPlansMax = 2;

  ServerPeer(std::uint64_t id, std::unique_ptr<ByteStream> stream, const ServerOptions& options,
             PeerHost& host, std::int64_t now_ns);
  ~ServerPeer() override;

  std::uint64_t id() const { return id_; }
  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }
  Heartbeat& heartbeat() { return heartbeat_; }
  bool is_welcome() const { return welcome_; }
  std::int64_t since_ns() const { return since_ns_; }
  /// Since when a payload has been arriving; 0: none is.
  std::int64_t arriving_since_ns() const { return arriving_since_ns_; }

  /// Told to the client when it changes; what it was once given counts until the end.
  void set_window(const Window& window);
  /// Requests without an answer that has gone.
  std::uint64_t in_flight() const { return in_flight_.requests; }
  bool is_idle() const { return in_flight_.requests == 0 && registering_ == 0; }
  std::int64_t asked_ns() const { return asked_ns_; }  ///< when it asked for a chunk last; 0: never
  std::uint64_t worth() const { return worth_; }       ///< as its last Ping says
  std::uint64_t weight() const { return weight_; }  ///< as its last Ping says, within bounds; in thousandths
  const ClientUser& user() const { return user_; }
  /// Those of one party share what their weights give together.
  const std::string& party() const { return party_; }
  const std::string& name() const { return name_; }  ///< as its Hello says
  bool only_asks() const { return only_asks_; }      ///< it wanted to know who uses the server
  void finish(std::uint64_t bytes);

  /// A plan is registered; the one to be forgotten for it, if there is one.
  std::optional<std::uint64_t> add_plan(std::uint64_t plan);
  void end_registration() { --registering_; }
  /// Whether the plan may be used, which it is then.
  bool use_plan(std::uint64_t plan);
  const std::vector<std::uint64_t>& plans() const { return plans_; }

  std::deque<Question> waiting;  ///< for the handler, in order

  // What the server notes of it.
  /// What its share depends on, as it was when the shares were computed last.
  struct Claimed {
    std::uint64_t worth = 0, weight = 0;
    bool asks = false, welcome = false;
    bool operator==(const Claimed&) const = default;
  };
  Claimed claimed;
  double share = 1, user_share = 1;  ///< among those that ask; of its user's clients that do
  std::int64_t used_ns = 0;          ///< of the handler's threads
  std::int64_t others_used_ns = 0, asked_free_ns = 0;  ///< by all others, when it asked what is free last

  Result<ReceiveTarget> place(const FrameHeader& header, const std::string& body) override;
  Status take(const FrameHeader& header, const std::string& body, bool placed) override;

 private:
  Status read_question(const FrameHeader& header, const std::string& body);
  Status check_window(std::uint64_t bytes) const;
  Status take_hello(const std::string& body);

  const std::uint64_t id_;
  const ServerOptions& options_;
  PeerHost& host_;
  Heartbeat heartbeat_;
  const std::int64_t since_ns_;
  std::int64_t arriving_since_ns_ = 0;
  std::int64_t asked_ns_ = 0;
  std::uint64_t worth_ = 0, weight_ = Ping::kOne;
  bool welcome_ = false;
  bool only_asks_ = false;
  std::string name_;
  ClientUser user_;
  std::string party_;
  Window window_;     // as told last
  Window most_;       // that was ever told
  Window in_flight_;  // of requests
  std::size_t registering_ = 0;
  std::vector<std::uint64_t> plans_;  // the last used is at the back
  Question question_;                 // whose payload arrives
  std::shared_ptr<ReceivedBytes> received_;
  Connection connection_;  // ends before what it calls
};

}  // namespace carya::remote
