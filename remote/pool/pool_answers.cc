// The half of a pool's member that is about what the worker says. All of it is untrusted.

#include <algorithm>

#include "base/clock.h"
#include "remote/pool/pool_member.h"

namespace carya::remote {
namespace {

constexpr std::uint32_t kBodyBytesMax = 256 << 10;
/// What is free of a worker is the mean of the last so many Pongs.
constexpr double kPongs = 4;

std::unexpected<Error> nobody_asked(const FrameHeader& header) {
  return fail(Code::kCorrupt, std::string(frame_name(header.type)) + " for request " +
                                  std::to_string(header.request) + ", which was not asked");
}

}  // namespace

Result<Placement> PoolMember::place(const FrameHeader& header, const std::string& body) {
  if (header.type != FrameType::kResult)
    return fail(Code::kCorrupt, std::string(frame_name(header.type)) + " is not for a worker to say");
  ASSIGN(const ChunkResult result, decode<ChunkResult>(body));
  {
    const std::lock_guard lock(shared_.mutex);
    const auto found = outstanding_.find(header.request);
    if (found == outstanding_.end()) return nobody_asked(header);
    if (header.payload_bytes > found->second.result_bytes)
      return fail(Code::kCorrupt, "a result of " + std::to_string(header.payload_bytes) +
                                      " B; asked for: " + std::to_string(found->second.result_bytes));
    if (found->second.withdrawn) return Placement{};
  }
  return shared_.events.place(header.request, result.about, header.payload_bytes);
}

Status PoolMember::take(const FrameHeader& header, const std::string& body, bool placed) {
  if (!welcome_ && header.type != FrameType::kWelcome && header.type != FrameType::kError)
    return fail(Code::kCorrupt, std::string(frame_name(header.type)) + " before Welcome");
  switch (header.type) {
    case FrameType::kWelcome:
      return take_welcome(body);
    case FrameType::kPing:
      connection_->send(Pong{}, header.request);
      return {};
    case FrameType::kPong: {
      ASSIGN(const Pong pong, decode<Pong>(body));
      const std::lock_guard lock(shared_.mutex);
      const double free =
          static_cast<double>(std::clamp<std::uint64_t>(pong.free, 1, Pong::kAll)) / Pong::kAll;
      figures_.free += (free - figures_.free) / kPongs;
      const std::int64_t ns = heartbeat_.round_trip_ns(header.request, monotonic_ns());
      if (ns > 0) figures_.round_trip_s = static_cast<double>(ns) / 1e9;
      return {};
    }
    case FrameType::kRegistered:
      return take_registered(header, body);
    case FrameType::kError:
      return take_refusal(header, body);
    case FrameType::kResult:
      return take_result(header, body, placed);
    case FrameType::kChunkFailed:
    case FrameType::kUnknownPlan:
      return take_failed(header, body);
    case FrameType::kCredit: {
      ASSIGN(const Credit credit, decode<Credit>(body));
      {
        const std::lock_guard lock(shared_.mutex);
        figures_.window = credit.window;
      }
      shared_.events.room(id_);
      return {};
    }
    case FrameType::kDrain: {
      const std::lock_guard lock(shared_.mutex);
      figures_.state = WorkerFigures::State::kDraining;
      return {};
    }
    default:
      return fail(Code::kCorrupt, std::string(frame_name(header.type)) + " is not for a worker to say");
  }
}

Status PoolMember::take_welcome(const std::string& body) {
  if (welcome_) return fail(Code::kCorrupt, "a second Welcome");
  ASSIGN(const Welcome welcome, decode<Welcome>(body));
  TRY(shared_.events.admit(id_, welcome));
  connection_->set_limits({.body_bytes = kBodyBytesMax, .payload_bytes = welcome.result_bytes_max});
  heartbeat_ = Heartbeat(shared_.options.heartbeat_ms, shared_.options.silent_ms, monotonic_ns());
  welcome_ = true;
  {
    const std::lock_guard lock(shared_.mutex);
    figures_.state = WorkerFigures::State::kUp;
    figures_.kind = connection_->kind();
    figures_.window = welcome.window;
    figures_.free = 1;
    request_bytes_max_ = welcome.request_bytes_max;
    result_bytes_max_ = welcome.result_bytes_max;
  }
  send_written();  // the plans
  return {};
}

Status PoolMember::take_registered(const FrameHeader& header, const std::string& body) {
  ASSIGN(Registered said, decode<Registered>(body));
  if (said.plan != header.request || !asked_plans_.contains(said.plan)) return {};  // dropped meanwhile
  {
    const std::lock_guard lock(shared_.mutex);
    registered_plans_.insert(said.plan);
  }
  shared_.events.registered(id_, said.plan, std::move(said.about));
  shared_.events.room(id_);
  return {};
}

/// Of a plan, or of us.
Status PoolMember::take_refusal(const FrameHeader& header, const std::string& body) {
  ASSIGN(ErrorIs said, decode<ErrorIs>(body));
  if (header.request == 0) {
    said.error.message = "it says: " + said.error.message;
    return std::unexpected(std::move(said.error));
  }
  if (asked_plans_.contains(header.request))
    shared_.events.registered(id_, header.request, std::unexpected(std::move(said.error)));
  return {};
}

Result<bool> PoolMember::finish(std::uint64_t request, std::uint64_t payload_bytes, bool result) {
  const std::lock_guard lock(shared_.mutex);
  const auto found = outstanding_.extract(request);
  if (found.empty())
    return fail(Code::kCorrupt, "an answer to request " + std::to_string(request) + ", which was not asked");
  const Outstanding& one = found.mapped();
  --figures_.in_flight.requests;
  figures_.in_flight.bytes -= one.bytes;
  figures_.received_bytes += payload_bytes;
  if (result) {
    ++figures_.results;
    figures_.failures = 0;
    latencies_.add(monotonic_ns() - one.submitted_ns);
  }
  if (one.withdrawn) return false;
  shared_.member_of.erase(request);
  return true;
}

Status PoolMember::take_result(const FrameHeader& header, const std::string& body, bool placed) {
  ASSIGN(const ChunkResult result, decode<ChunkResult>(body));
  ASSIGN(const bool wanted, finish(header.request, header.payload_bytes, true));
  if (wanted) shared_.events.done(header.request, result.about, placed);
  shared_.events.room(id_);
  return {};
}

/// What another worker may do is lost here; what would fail there too has failed.
Status PoolMember::take_failed(const FrameHeader& header, const std::string& body) {
  Error error{Code::kClosed, "does not know the plan", 0};
  if (header.type == FrameType::kChunkFailed) {
    ASSIGN(ChunkFailed failed, decode<ChunkFailed>(body));
    error = std::move(failed.error);
  } else {
    ASSIGN(const UnknownPlan unknown, decode<UnknownPlan>(body));
    const std::lock_guard lock(shared_.mutex);
    registered_plans_.erase(unknown.plan);
    asked_plans_.erase(unknown.plan);  // asked again with what is sent next
  }
  ASSIGN(const bool wanted, finish(header.request, 0, false));
  error.message = "worker " + address_.text() + ": " + error.message;
  const bool lost = error.code == Code::kClosed;
  {
    const std::lock_guard lock(shared_.mutex);
    if (wanted) ++(lost ? figures_.lost : figures_.failed);
  }
  if (wanted && lost) shared_.events.lost(header.request, error);
  if (wanted && !lost) shared_.events.failed(header.request, error);
  shared_.events.room(id_);
  return {};
}

}  // namespace carya::remote
