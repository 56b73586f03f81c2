#include "remote/server/server_loop.h"

#include <sys/socket.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "remote/protocol/address.h"
#include "remote/server/client_shares.h"

namespace carya::remote {
namespace {

constexpr std::uint64_t kListenerTag = 1;
constexpr std::uint64_t kFirstPeer = 2;

}  // namespace

ChunkServer::Loop::Loop(const ServerOptions& options, ChunkHandler& handler, const Address& address,
                        UniqueFd listener, Poller poller, std::shared_ptr<TlsContext> tls)
    : options_(options),
      tokens_(options.tokens),
      handler_(handler),
      listener_(std::move(listener)),
      file_(address),
      poller_(std::move(poller)),
      tls_(std::move(tls)),
      port_(listening_port(listener_.get())),
      tick_ms_(std::clamp<std::int64_t>(static_cast<std::int64_t>(options.heartbeat_ms) / 4, 1, 250)),
      next_peer_(kFirstPeer) {}

ChunkServer::Loop::~Loop() {
  while (!peers_.empty()) {
    const auto ended = peers_.extract(peers_.begin());
  }
}

void ChunkServer::Loop::stop() {
  stopped_ = true;
  poller_.wake();
}

void ChunkServer::Loop::drain() {
  {
    const MutexLock lock(mutex_);
    drain_wanted_ = true;
  }
  poller_.wake();
}

void ChunkServer::Loop::answer(const Ticket& ticket, Result<Answer> answer) {
  bool first = false;
  {
    const MutexLock lock(mutex_);
    first = answers_.empty();
    answers_.emplace_back(ticket, std::move(answer));
  }
  if (first) poller_.wake();
}

ServerStats ChunkServer::Loop::stats() const {
  const std::uint64_t chunks = chunks_;
  return {drains_,        connections_,      connections_so_far_,
          refused_,       chunks % kHandled, chunks / kHandled,
          answered_,      failed_,           late_,
          request_bytes_, result_bytes_};
}

void ChunkServer::Loop::run() {
  if (!poller_.watch(listener_.get(), kListenerTag, true, false)) return;
  std::int64_t tick_ns = monotonic_ns();
  while (!stopped_ && !(drains_ && peers_.empty())) {
    const auto ready = poller_.wait(touched_.empty() ? static_cast<int>(tick_ms_) : 0);
    std::vector<std::uint64_t> touched = std::exchange(touched_, {});
    for (const std::uint64_t tag : ready) {
      if (tag == kListenerTag) {
        accept_all();
      } else {
        serve(tag);
      }
    }
    for (const std::uint64_t id : touched) serve(id);
    take_answers();
    dispatch();
    const std::int64_t now = monotonic_ns();
    share_window(now);
    if (now - tick_ns < tick_ms_ * kNsPerMs) continue;
    tick_ns = now;
    tick(now);
  }
  const Error reason{Code::kClosed, "the worker stops", 0};
  while (!peers_.empty()) close(peers_.begin()->first, reason);
}

// Connections.

void ChunkServer::Loop::accept_all() {
  while (accepting_) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == ECONNABORTED || errno == EINTR) continue;
      if (errno == EAGAIN) return;
      // No descriptors or memory: asked again at the next tick, not at once.
      accepting_ = false;
      poller_.forget(listener_.get());
      return;
    }
    make_room_for_strangers();
    add_peer(std::move(socket), monotonic_ns());
  }
}

std::size_t ChunkServer::Loop::welcome_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(peers_, [](const auto& entry) { return entry.second.peer->is_welcome(); }));
}

void ChunkServer::Loop::make_room_for_strangers() {
  std::map<std::string, std::size_t> strangers;
  std::size_t all = 0;
  for (const auto& [id, entry] : peers_) {
    if (entry.peer->is_welcome()) continue;
    ++strangers[entry.from];
    ++all;
  }
  if (all < options_.strangers_max) return;
  const auto most = std::ranges::max_element(strangers, {}, [](const auto& entry) { return entry.second; });
  const auto oldest = std::ranges::find_if(peers_, [&](const auto& entry) {  // numbers rise
    return !entry.second.peer->is_welcome() && entry.second.from == most->first;
  });
  close(oldest->first,
        {Code::kExhausted,
         fmt::format("there are {} connections that did not say who they are, and this address has the most",
                     all),
         0});
}

void ChunkServer::Loop::add_peer(UniqueFd socket, std::int64_t now_ns) {
  send_at_once(socket.get());
  std::string from = peer_text(socket.get());
  from.resize(std::min(from.rfind(':'), from.size()));
  std::unique_ptr<ByteStream> stream;
  if (tls_) {
    if (const Status renewed = tls_->renew(); !renewed) handler_.not_renewed(renewed.error());
    auto secured = tls_->accept(std::move(socket), options_.client_names);
    if (!secured) return handler_.refused("", secured.error());
    stream = std::move(*secured);
  } else {
    stream = plain_stream(std::move(socket));
  }
  const std::uint64_t id = next_peer_++;
  peers_[id].from = std::move(from);
  peers_[id].peer = std::make_unique<ServerPeer>(id, std::move(stream), options_, *this, now_ns);
  peers_changed_ = true;
  connections_ = peers_.size();
  ++connections_so_far_;
  serve(id);
}

ServerPeer* ChunkServer::Loop::find(std::uint64_t id) {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.peer.get();
}

/// Lets a connection do what it can.
void ChunkServer::Loop::serve(std::uint64_t id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Connection& connection = found->second.peer->connection();
  Status status = connection.is_paused() ? connection.resume() : Status();
  if (status) status = connection.on_ready();
  if (!status) return close(id, status.error());
  if (connection.has_buffered()) touch(id);
  const bool reads = connection.wants_read(), writes = connection.wants_write();
  if (reads == found->second.reads && writes == found->second.writes) return;
  found->second.reads = reads;
  found->second.writes = writes;
  const Status watched = poller_.watch(connection.fd(), id, reads, writes);
  if (!watched) close(id, watched.error());
}

void ChunkServer::Loop::close(std::uint64_t id, const Error& reason) {
  const auto ended = peers_.extract(id);
  if (ended.empty()) return;
  peers_changed_ = true;
  ServerPeer& peer = *ended.mapped().peer;
  if (reason.code != Code::kClosed || stopped_) {
    peer.connection().send(ErrorIs{reason});
    peer.connection().flush();
  }
  poller_.forget(peer.connection().fd());
  const std::string who = peer_text(peer.connection().fd());
  for (const Question& question : peer.waiting) unreserve(question.asked.payload->bytes);
  chunks_ -= peer.waiting.size();
  turns_.leave(id);
  for (auto& [serial, flight] : flights_)
    if (flight.peer == id) flight.told = true;
  peer.connection().close();
  connections_ = peers_.size();
  if (peer.is_welcome()) return handler_.gone(id, who, reason);
  ++refused_;
  handler_.refused(who, reason);
}

// What peers need.

bool ChunkServer::Loop::reserve(std::uint64_t bytes) {
  const std::uint64_t held = request_bytes_;
  if (held > 0 && (held > options_.bytes_max || bytes > options_.bytes_max - held)) return false;
  request_bytes_ += bytes;
  return true;
}

void ChunkServer::Loop::unreserve(std::uint64_t bytes) {
  request_bytes_ -= bytes;
  if (bytes == 0) return;
  for (const auto& [id, entry] : peers_)
    if (entry.peer->connection().is_paused()) touch(id);
}

const std::vector<UserToken>& ChunkServer::Loop::tokens() {
  if (!options_.renew_tokens) return tokens_;
  auto renewed = options_.renew_tokens();
  if (!renewed) handler_.not_renewed(renewed.error());
  if (renewed && *renewed) tokens_ = std::move(**renewed);
  return tokens_;
}

Result<Welcome> ChunkServer::Loop::welcome(const ServerPeer& peer, const Hello& hello,
                                           const ClientUser& user) {
  if (drains_) return fail(Code::kUnsupported, "the worker takes nothing new: it goes away");
  const std::size_t others = welcome_count();
  if (others >= options_.connections_max)
    return fail(Code::kExhausted, fmt::format("there are {} connections, which is the limit", others));
  ASSIGN(std::vector<Fact> facts, handler_.admit(peer.id(), hello, user));
  Welcome out{.server = options_.server, .facts = std::move(facts)};
  out.window = window_for(1.0 / static_cast<double>(others + 1));
  out.request_bytes_max = options_.request_bytes_max;
  out.result_bytes_max = options_.result_bytes_max;
  out.heartbeat_ms = options_.heartbeat_ms;
  return out;
}

void ChunkServer::Loop::ask(ServerPeer& peer, Question question) {
  if (drains_) {
    const Error closed{Code::kClosed, "the worker takes nothing new: it goes away", 0};
    return refuse(peer, question, closed);
  }
  if (question.type == FrameType::kRegister) {
    const std::uint64_t serial = hand_over(peer, question);
    question.asked.ticket = {peer.id(), serial};
    return handler_.register_plan(std::move(question.asked));
  }
  if (peer.waiting.empty()) turns_.wait(peer.id(), peer.party(), {peer.user_share, peer.share});
  peer.waiting.push_back(std::move(question));
  ++chunks_;
}

/// The fraction of the handler's threads that other clients did not use since this client's last ping, but at least
/// its fair share.
double ChunkServer::Loop::free_share(ServerPeer& peer) {
  const std::int64_t now_ns = monotonic_ns(), others_ns = used_ns_ - peer.used_ns;
  const auto took_ns = static_cast<double>(now_ns - std::exchange(peer.asked_free_ns, now_ns));
  const auto used_ns = static_cast<double>(others_ns - std::exchange(peer.others_used_ns, others_ns));
  return std::clamp(1 - used_ns / (took_ns * options_.threads + 1), peer.share, 1.0);
}

UsageIs ChunkServer::Loop::usage() const {
  const std::int64_t now_ns = monotonic_ns();
  UsageIs out{.server = options_.server, .threads = options_.threads, .drains = drains_};
  for (const auto& [id, entry] : peers_) {
    const ServerPeer& peer = *entry.peer;
    if (!peer.is_welcome() || peer.only_asks() || ++out.clients_all > UsageIs::kClientsMax) continue;
    const auto ms_since = [&](std::int64_t ns) {
      return static_cast<std::uint64_t>((now_ns - ns) / kNsPerMs);
    };
    out.clients.push_back({.client = peer.name(),
                           .address = entry.from,
                           .since_ms = ms_since(peer.since_ns()),
                           .asked_ms = peer.asked_ns() > 0 ? ms_since(peer.asked_ns()) : 0,
                           .asks = peer.asked_ns() > 0,
                           .user = peer.user().name,
                           .proven = peer.user().proven,
                           .weight = peer.weight(),
                           .worth = peer.worth(),
                           .share = static_cast<std::uint64_t>(peer.share * Pong::kAll),
                           .in_flight = peer.in_flight(),
                           .thread_ms = static_cast<std::uint64_t>(peer.used_ns / kNsPerMs)});
  }
  return out;
}

// What is done in turns.

Window ChunkServer::Loop::window_for(double share) const {
  const auto part = [share](std::uint64_t all) {
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(all) * share + 1e-6));
  };
  return {part(options_.requests_max), part(options_.bytes_max)};
}

/// Whether anything was said, begun or ended that client_shares() depends on.
bool ChunkServer::Loop::claims_changed(std::int64_t now_ns) {
  const std::int64_t recent_ns = now_ns - static_cast<std::int64_t>(options_.heartbeat_ms) * kNsPerMs;
  bool changed = std::exchange(peers_changed_, false);
  for (const auto& [id, entry] : peers_) {
    ServerPeer& peer = *entry.peer;
    const ServerPeer::Claimed now{
        .worth = peer.worth(),
        .weight = peer.weight(),
        .asks = peer.in_flight() > 0 || (peer.asked_ns() > 0 && peer.asked_ns() >= recent_ns),
        .welcome = peer.is_welcome()};
    changed |= std::exchange(peer.claimed, now) != now;
  }
  return changed;
}

/// Window and turns go by bounded_shares().
void ChunkServer::Loop::share_window(std::int64_t now_ns) {
  if (!claims_changed(now_ns)) return;
  std::vector<ShareClaim> claims;
  for (const auto& [id, entry] : peers_) {
    const ServerPeer& peer = *entry.peer;
    claims.push_back({.user = peer.party(),
                      .weight = static_cast<double>(peer.claimed.weight),
                      .worth = static_cast<double>(peer.claimed.worth),
                      .asks = peer.claimed.asks});
  }
  const std::vector<double> shares = bounded_shares(claims, options_.user_weight_max * Ping::kOne);
  std::map<std::string_view, double> of_users;
  for (std::size_t i = 0; i < claims.size(); ++i)
    if (claims[i].asks) of_users[claims[i].user] += shares[i];
  for (std::size_t i = 0; const auto& [id, entry] : peers_) {
    ServerPeer& peer = *entry.peer;
    peer.share = shares[i++];
    peer.user_share = std::max(of_users[peer.party()], peer.share);
    if (!peer.is_welcome()) continue;
    const std::size_t before = peer.connection().queued_frames();
    peer.set_window(window_for(peer.share));
    if (peer.connection().queued_frames() != before) touch(id);
  }
}

void ChunkServer::Loop::tick(std::int64_t now_ns) {
  bool wanted = false;
  {
    const MutexLock lock(mutex_);
    wanted = drain_wanted_;
  }
  if (wanted && !drains_) start_draining();
  const auto grace_ns = static_cast<std::int64_t>(options_.grace_ms) * kNsPerMs;
  if (drains_ && !gave_back_ && now_ns - drains_since_ns_ >= grace_ns) give_back();
  if (!accepting_ && !drains_)
    accepting_ = poller_.watch(listener_.get(), kListenerTag, true, false).has_value();
  expire_chunks(now_ns);
  std::vector<std::uint64_t> ids;
  for (const auto& [id, entry] : peers_) ids.push_back(id);
  for (const std::uint64_t id : ids) {
    ServerPeer& peer = *peers_.at(id).peer;
    if (peer.is_welcome()) peer.heartbeat().beat(peer.connection(), now_ns);
    serve(id);  // so that nobody is judged by what was not read yet
    ServerPeer* const alive = find(id);
    if (alive == nullptr) continue;
    const Status judged = judge(*alive, now_ns);
    if (!judged) close(id, judged.error());
  }
}

Status ChunkServer::Loop::judge(ServerPeer& peer, std::int64_t now_ns) const {
  const auto late = [&](std::int64_t since_ns, std::uint64_t limit_ms) {
    return now_ns - since_ns > static_cast<std::int64_t>(limit_ms) * kNsPerMs;
  };
  if (!peer.is_welcome() && late(peer.since_ns(), options_.hello_ms))
    return fail(Code::kTimeout, fmt::format("no Hello within {} ms", options_.hello_ms));
  if (peer.arriving_since_ns() > 0 && late(peer.arriving_since_ns(), options_.chunk_ms))
    return fail(Code::kTimeout, fmt::format("a frame took longer than {} ms", options_.chunk_ms));
  const bool silent = peer.heartbeat().is_silent(peer.connection(), now_ns);
  if (peer.is_welcome() && silent)
    return fail(Code::kTimeout, fmt::format("silent for {} ms", options_.silent_ms));
  if (drains_ && peer.is_idle() && peer.connection().queued_frames() == 0 &&
      late(drains_since_ns_, options_.silent_ms))
    return fail(Code::kClosed, "the worker goes away, and the client has nothing left here");
  if (gave_back_ && late(drains_since_ns_, options_.grace_ms + options_.silent_ms))
    return fail(Code::kClosed, "the worker goes away, and the client did not take what it was given back");
  return {};
}

void ChunkServer::Loop::start_draining() {
  drains_ = true;
  drains_since_ns_ = monotonic_ns();
  accepting_ = false;
  poller_.forget(listener_.get());
  file_.remove();
  listener_.reset();
  std::vector<std::uint64_t> strangers;
  for (const auto& [id, entry] : peers_) {
    entry.peer->connection().send(Drain{});
    if (!entry.peer->is_welcome()) strangers.push_back(id);
  }
  for (const std::uint64_t id : strangers) close(id, {Code::kUnsupported, "the worker goes away", 0});
}

/// The grace time is over: what is not done, others do.
void ChunkServer::Loop::give_back() {
  gave_back_ = true;
  const Error gone{Code::kClosed, "the worker goes away before it can do this", 0};
  for (auto& [id, entry] : peers_) {
    if (entry.peer->waiting.empty()) continue;
    turns_.leave(id);
    for (const Question& question : std::exchange(entry.peer->waiting, {})) {
      --chunks_;
      refuse(*entry.peer, question, gone);
    }
  }
  for (auto& [serial, flight] : flights_) {
    ServerPeer* const peer = flight.told ? nullptr : find(flight.peer);
    if (peer == nullptr) continue;
    flight.told = true;
    touch(flight.peer);
    if (flight.type == FrameType::kRegister) {
      peer->end_registration();
      peer->connection().send(ErrorIs{gone}, flight.request);
      continue;
    }
    peer->finish(flight.payload_bytes + flight.result_bytes);
    peer->connection().send(ChunkFailed{gone}, flight.request);
    handler_.cancel({flight.peer, serial});
  }
}

struct ChunkServer::Loop::Sending {
  Loop& loop;
  std::uint64_t peer;
  std::uint64_t bytes;
  std::uint64_t result_bytes;
  std::shared_ptr<const void> owner;
  ~Sending() { loop.result_sent(peer, bytes, result_bytes); }
};

/// Answers a question that was not given to the handler.
void ChunkServer::Loop::refuse(ServerPeer& peer, const Question& question, const Error& error) {
  const std::uint64_t payload_bytes = question.asked.payload->bytes;
  if (question.type == FrameType::kRegister) {
    peer.connection().send(ErrorIs{error}, question.request);
    peer.end_registration();
  } else {
    peer.finish(payload_bytes + question.asked.result_bytes);
    if (error.code == Code::kNotFound) {
      peer.connection().send(UnknownPlan{question.asked.plan}, question.request);
    } else {
      peer.connection().send(ChunkFailed{error}, question.request);
    }
  }
  unreserve(payload_bytes);
  touch(peer.id());
}

/// The question is the handler's from now on; its serial.
std::uint64_t ChunkServer::Loop::hand_over(const ServerPeer& peer, Question& question) {
  const std::uint64_t serial = next_serial_++;
  const std::int64_t limit_ns = static_cast<std::int64_t>(options_.chunk_ms) * 1'000'000;
  flights_[serial] = {.peer = peer.id(),
                      .type = question.type,
                      .request = question.request,
                      .plan = question.asked.plan,
                      .payload_bytes = question.asked.payload->bytes,
                      .result_bytes = question.asked.result_bytes,
                      .until_ns = monotonic_ns() + limit_ns,
                      .told = false};
  result_bytes_ += question.asked.result_bytes;
  question.asked.ticket = {peer.id(), serial};
  return serial;
}

void ChunkServer::Loop::dispatch() {
  while (chunks_ / kHandled < options_.handling_max && !turns_.none_waits() && dispatch_next()) {
  }
}

/// One chunk of the next peer in turn; false when results have no room.
bool ChunkServer::Loop::dispatch_next() {
  ServerPeer& peer = *find(turns_.next());
  const std::uint64_t room = peer.waiting.front().asked.result_bytes;
  const std::uint64_t held = result_bytes_;
  if (held > 0 && (held > options_.bytes_max || room > options_.bytes_max - held)) return false;
  Question question = std::move(peer.waiting.front());
  peer.waiting.pop_front();
  turns_.take_next();
  if (!peer.waiting.empty()) turns_.wait(peer.id(), peer.party(), {peer.user_share, peer.share});
  if (!peer.use_plan(question.asked.plan)) {
    --chunks_;
    refuse(peer, question, {Code::kNotFound, "unknown plan", 0});
    return true;
  }
  hand_over(peer, question);
  chunks_ += kHandled - 1;
  handler_.compute(std::move(question.asked));
  return true;
}

void ChunkServer::Loop::cancel(ServerPeer& peer, std::uint64_t request) {
  const auto waits = std::ranges::find(peer.waiting, request, &Question::request);
  if (waits != peer.waiting.end()) {
    const Question question = std::move(*waits);
    peer.waiting.erase(waits);
    --chunks_;
    if (peer.waiting.empty()) turns_.leave(peer.id());
    return refuse(peer, question, {Code::kClosed, "the client does not want it any more", 0});
  }
  for (const auto& [serial, flight] : flights_)
    if (flight.peer == peer.id() && flight.request == request && flight.type == FrameType::kRequest)
      return handler_.cancel({peer.id(), serial});
}

void ChunkServer::Loop::take_answers() {
  std::vector<std::pair<Ticket, Result<Answer>>> answers;
  {
    const MutexLock lock(mutex_);
    answers.swap(answers_);
  }
  for (auto& [ticket, answer] : answers) {
    const auto flight = flights_.extract(ticket.serial);
    if (!flight.empty()) finish(flight.mapped(), std::move(answer));
  }
}

void ChunkServer::Loop::finish(const Flight& flight, Result<Answer> answer) {
  unreserve(flight.payload_bytes);
  if (flight.type == FrameType::kRequest) chunks_ -= kHandled;
  const std::int64_t used_ns = answer ? answer->thread_ns : 0;
  used_ns_ += used_ns;
  if (ServerPeer* const whose = find(flight.peer)) whose->used_ns += used_ns;
  ServerPeer* const peer = flight.told ? nullptr : find(flight.peer);
  if (peer == nullptr) {
    result_bytes_ -= flight.result_bytes;
    ++late_;
    return;
  }
  touch(flight.peer);
  if (flight.type == FrameType::kRegister) {
    peer->end_registration();
    if (!answer) return peer->connection().send(ErrorIs{answer.error()}, flight.request);
    if (const auto old = peer->add_plan(flight.plan)) handler_.forget_plan(peer->id(), *old);
    return peer->connection().send(Registered{flight.plan, answer->about}, flight.request);
  }
  if (answer && answer->payload.bytes() > flight.result_bytes)
    answer = fail(Code::kInvalidArgument, fmt::format("a result of {} B; asked for: {}",
                                                      answer->payload.bytes(), flight.result_bytes));
  if (answer) return send_result(*peer, flight, std::move(*answer));
  ++failed_;
  result_bytes_ -= flight.result_bytes;
  peer->finish(flight.payload_bytes + flight.result_bytes);
  peer->connection().send(ChunkFailed{answer.error()}, flight.request);
}

/// What it holds counts until its last byte has gone.
void ChunkServer::Loop::send_result(ServerPeer& peer, const Flight& flight, Answer answer) {
  ++answered_;
  const std::uint64_t bytes = flight.payload_bytes + flight.result_bytes;
  auto owner = std::move(answer.payload.owner);
  answer.payload.owner = std::shared_ptr<const Sending>(
      new Sending{*this, flight.peer, bytes, flight.result_bytes, std::move(owner)});
  peer.connection().send(ChunkResult{std::move(answer.about)}, flight.request, std::move(answer.payload));
}

void ChunkServer::Loop::result_sent(std::uint64_t peer, std::uint64_t bytes, std::uint64_t result_bytes) {
  result_bytes_ -= result_bytes;
  if (ServerPeer* const alive = find(peer)) alive->finish(bytes);
}

/// Chunks that the handler has had for too long.
void ChunkServer::Loop::expire_chunks(std::int64_t now_ns) {
  for (auto& [serial, flight] : flights_) {
    if (flight.told || flight.type != FrameType::kRequest || now_ns < flight.until_ns) continue;
    flight.told = true;
    ++failed_;
    ServerPeer& peer = *find(flight.peer);
    peer.finish(flight.payload_bytes + flight.result_bytes);
    const std::string limit = std::to_string(options_.chunk_ms);
    peer.connection().send(ChunkFailed{{Code::kTimeout, "the chunk took longer than " + limit + " ms", 0}},
                           flight.request);
    touch(flight.peer);
  }
}

}  // namespace carya::remote
