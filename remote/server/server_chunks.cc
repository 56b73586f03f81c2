// The half of the server's loop that is about chunks: from a peer's queue to the handler and back.

#include <algorithm>

#include "base/clock.h"
#include "remote/server/server_loop.h"

namespace carya::remote {

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
  const bool chunk = question.type == FrameType::kRequest;
  const std::int64_t limit_ns = static_cast<std::int64_t>(options_.chunk_ms) * 1'000'000;
  flights_[serial] = {.peer = peer.id(),
                      .type = question.type,
                      .request = question.request,
                      .plan = question.asked.plan,
                      .payload_bytes = question.asked.payload->bytes,
                      .result_bytes = question.asked.result_bytes,
                      .until_ns = monotonic_ns() + limit_ns,
                      .told = false};
  handling_ += chunk ? 1 : 0;
  result_bytes_ += question.asked.result_bytes;
  question.asked.ticket = {peer.id(), serial};
  return serial;
}

void ChunkServer::Loop::dispatch() {
  while (handling_ < options_.handling_max && !turns_.none_waits() && dispatch_next()) {
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
  --queued_;
  turns_.take_next();
  if (!peer.waiting.empty()) turns_.wait(peer.id(), peer.weight);
  if (!peer.use_plan(question.asked.plan)) {
    refuse(peer, question, {Code::kNotFound, "unknown plan", 0});
    return true;
  }
  hand_over(peer, question);
  handler_.compute(std::move(question.asked));
  return true;
}

void ChunkServer::Loop::cancel(ServerPeer& peer, std::uint64_t request) {
  const auto waits = std::ranges::find(peer.waiting, request, &Question::request);
  if (waits != peer.waiting.end()) {
    const Question question = std::move(*waits);
    peer.waiting.erase(waits);
    --queued_;
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
    const std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (auto& [ticket, answer] : answers) {
    const auto flight = flights_.extract(ticket.serial);
    if (!flight.empty()) finish(flight.mapped(), std::move(answer));
  }
}

void ChunkServer::Loop::finish(const Flight& flight, Result<Answer> answer) {
  unreserve(flight.payload_bytes);
  handling_ -= flight.type == FrameType::kRequest ? 1 : 0;
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
    answer = fail(Code::kInvalidArgument, "a result of " + std::to_string(answer->payload.bytes()) +
                                              " B; asked for: " + std::to_string(flight.result_bytes));
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
