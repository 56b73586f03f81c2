#include "remote/pool/pool_member.h"

#include <fmt/core.h>
#include <algorithm>
#include <iterator>

#include "base/clock.h"
#include "base/mutex.h"

namespace carya::remote {
namespace {

constexpr std::int64_t kRatesNs = 1'000 * kNsPerMs;
/// Of requests that wait in the kernel, and as many in the connection; frames that wait there.
constexpr int kUnsentBytes = 256 << 10;
constexpr std::size_t kUnsentFrames = 2;

/// How an error begins that the worker itself has told.
constexpr const char* kItSays = "it says: ";

using State = WorkerStats::State;

/// What is free of a worker is the mean of the last so many Pongs.
constexpr double kPongs = 4;

std::unexpected<Error> nobody_asked(const FrameHeader& header) {
  return fail(Code::kCorrupt,
              fmt::format("{} for request {}, which was not asked", frame_name(header.type), header.request));
}

}  // namespace

Status PoolShared::check_allowed(const Address& address) const {
  if (tls || options.insecure || address.is_local()) return {};
  return fail(Code::kInvalidArgument,
              "is another machine: give certificates, or say insecure on this side too");
}

PoolMember::PoolMember(std::uint64_t id, std::string name, Address address, const std::string& unknown,
                       PoolShared& shared)
    : id_(id),
      name_(std::move(name)),
      address_(std::move(address)),
      shared_(shared),
      unknown_{Code::kNotFound, unknown, 0},
      heartbeat_(shared.options.heartbeat_ms, shared.options.silent_ms, 0),
      random_(op_key(shared.options.seed, "remote/pool", 0), 0, id, 0) {
  figures_.member = id;
  figures_.address = address_.text();
  figures_.reason = unknown;
}

PoolMember::~PoolMember() {
  if (connection_) connection_->close();
}

Status PoolMember::submit(Submission submission) {
  shared_.mutex.assert_held();
  const std::string subject = "worker " + address_.text();
  if (figures_.state != State::kUp) return fail(Code::kClosed, subject + " is not there");
  if (!registered_plans_.contains(submission.plan))
    return fail(Code::kNotFound, fmt::format("{} does not have plan {}", subject, submission.plan));
  const std::uint64_t payload = submission.payload.bytes();
  if (payload > request_bytes_max_ || submission.result_bytes > result_bytes_max_)
    return fail(Code::kInvalidArgument,
                fmt::format("{} takes {} B and gives {} B; wanted {} and {}", subject, request_bytes_max_,
                            result_bytes_max_, payload, submission.result_bytes));
  const std::uint64_t bytes = payload + submission.result_bytes;
  const Window &has = figures_.in_flight, &may = figures_.window;
  if (has.requests > 0 &&
      (has.requests >= may.requests || has.bytes > may.bytes || bytes > may.bytes - has.bytes))
    return fail(Code::kExhausted, subject + ": its window is full");
  if (submission.request == 0 || !shared_.member_of.emplace(submission.request, id_).second)
    return fail(Code::kInvalidArgument, fmt::format("request {} is in use", submission.request));
  outstanding_[submission.request] = {bytes, submission.result_bytes, monotonic_ns(), false};
  ++figures_.in_flight.requests;
  figures_.in_flight.bytes += bytes;
  figures_.sent_bytes += payload;
  written_.push_back(std::move(submission));
  return {};
}

std::shared_ptr<Connection> PoolMember::withdraw(std::uint64_t request) {
  shared_.mutex.assert_held();
  const auto found = outstanding_.find(request);
  if (found == outstanding_.end() || found->second.withdrawn) return nullptr;
  ++figures_.withdrawn;
  shared_.member_of.erase(request);
  const auto unsent = std::find_if(written_.begin(), written_.end(),
                                   [&](const Submission& one) { return one.request == request; });
  if (unsent != written_.end()) {
    written_.erase(unsent);
    --figures_.in_flight.requests;
    figures_.in_flight.bytes -= found->second.bytes;
    outstanding_.erase(found);
    return nullptr;
  }
  found->second.withdrawn = true;
  cancelled_.push_back(request);
  return connection_;
}

WorkerStats PoolMember::figures() const {
  shared_.mutex.assert_held();
  WorkerStats out = figures_;
  out.p50_s = latencies_.quantile(0.5);
  out.p99_s = latencies_.quantile(0.99);
  return out;
}

// The thread in run().

void PoolMember::serve(std::int64_t now_ns) {
  if (!connection_) {
    if (!name_.empty()) take_found();
    if (now_ns < next_try_ns_) return;
    const Status connected = connect(now_ns);
    if (!connected) return disconnect(connected.error(), now_ns, true);
  }
  Status status;
  do {
    send_written();
    status = connection_->on_ready();
  } while (status && connection_->queued_frames() == 0 && has_written());
  if (!status) {
    bool draining = false;
    {
      const MutexLock lock(shared_.mutex);
      draining = figures_.state == State::kDraining;
    }
    return disconnect(status.error(), now_ns, !draining);
  }
  if (is_through()) return disconnect({Code::kClosed, "the worker goes away", 0}, now_ns, false);
  watch();
}

/// Requests wait for room in a connection that can send.
bool PoolMember::has_written() const {
  const MutexLock lock(shared_.mutex);
  return welcome_ && !written_.empty();
}

/// The worker goes away, and nothing of ours is left there.
bool PoolMember::is_through() const {
  const MutexLock lock(shared_.mutex);
  return figures_.state == State::kDraining && outstanding_.empty();
}

/// What was found of a name that was not known, or whose worker did not answer. One that was not known is tried at once.
void PoolMember::take_found() {
  auto found = shared_.lookups->take(name_);
  if (!found) return;
  if (*found) {
    if (Status allowed = shared_.check_allowed(**found); !allowed)
      found = std::unexpected(std::move(allowed.error()));
  }
  if (!*found) {
    unknown_.message = found->error().message;
    return;
  }
  const MutexLock lock(shared_.mutex);
  if (!address_.is_known()) {
    figures_.failures = 0;
    next_try_ns_ = 0;
  }
  address_ = std::move(**found);
}

Status PoolMember::connect(std::int64_t now_ns) {
  if (!name_.empty() && (attempts_ > 0 || !address_.is_known())) shared_.lookups->ask(name_);
  if (!address_.is_known()) return std::unexpected(unknown_);
  connecting_since_ns_ = now_ns;
  ASSIGN(UniqueFd socket, address_.connect(attempts_++));
  limit_unsent(socket.get(), kUnsentBytes);
  std::unique_ptr<ByteStream> stream;
  if (shared_.tls && !address_.is_unix()) {
    const std::string& name = shared_.options.server_name;
    static_cast<void>(shared_.tls->renew());  // what is no good yet leaves those from before
    ASSIGN(stream, shared_.tls->connect(std::move(socket), name.empty() ? address_.host() : name, session_));
  } else {
    stream = plain_stream(std::move(socket));
  }
  if (shared_.options.renew_token)
    if (auto token = shared_.options.renew_token(); token && *token) shared_.hello.token = std::move(**token);
  const MutexLock lock(shared_.mutex);
  connection_ = std::make_shared<Connection>(std::move(stream), *this);
  connection_->send(shared_.hello);
  figures_.state = State::kConnecting;
  return {};
}

void PoolMember::watch() {
  const bool reads = connection_->wants_read(), writes = connection_->wants_write();
  if (reads == reads_ && writes == writes_) return;
  reads_ = reads;
  writes_ = writes;
  const Status watched = shared_.poller.watch(connection_->fd(), id_, reads, writes);
  if (!watched) disconnect(watched.error(), monotonic_ns(), true);
}

/// Gives the connection plans that it has not seen, and of what was submitted as much as is soon sent: the
/// rest can be withdrawn for nothing.
void PoolMember::send_written() {
  if (!welcome_) return;
  std::vector<Submission> written;
  std::vector<std::uint64_t> cancelled;
  std::map<std::uint64_t, PoolShared::Plan> plans;
  {
    const MutexLock lock(shared_.mutex);
    std::uint64_t bytes = 0;
    auto end = written_.begin();
    while (end != written_.end() && bytes < kUnsentBytes && connection_->queued_frames() < kUnsentFrames)
      bytes += (end++)->payload.bytes();
    written.assign(std::move_iterator(written_.begin()), std::move_iterator(end));
    written_.erase(written_.begin(), end);
    cancelled.swap(cancelled_);
    const auto is_gone = [kept = &shared_.plans](std::uint64_t plan) { return !kept->contains(plan); };
    std::erase_if(asked_plans_, is_gone);
    std::erase_if(registered_plans_, is_gone);
    for (const auto& [number, plan] : shared_.plans)
      if (asked_plans_.insert(number).second) plans.emplace(number, plan);
  }
  for (auto& [number, plan] : plans)
    connection_->send(Register{number, std::move(plan.about)}, number, std::move(plan.document));
  for (Submission& one : written)
    connection_->send(Request{one.plan, std::move(one.about), one.result_bytes}, one.request,
                      std::move(one.payload));
  for (const std::uint64_t request : cancelled) connection_->send(Cancel{}, request);
}

void PoolMember::tick(std::int64_t now_ns) {
  if (connection_ && welcome_)
    heartbeat_.beat(*connection_, now_ns, {.worth = shared_.worth, .weight = shared_.weight});
  serve(now_ns);  // so that nobody is judged by what was not read yet
  if (!connection_) return;
  const Status judged = judge(now_ns);
  if (!judged) return disconnect(judged.error(), now_ns, true);
  if (now_ns - rates_ns_ >= kRatesNs) renew_rates(now_ns);
}

Status PoolMember::judge(std::int64_t now_ns) {
  const auto limit_ns = static_cast<std::int64_t>(shared_.options.connect_ms) * kNsPerMs;
  if (!welcome_ && now_ns - connecting_since_ns_ > limit_ns)
    return fail(Code::kTimeout, fmt::format("no Welcome within {} ms", shared_.options.connect_ms));
  if (welcome_ && heartbeat_.is_silent(*connection_, now_ns))
    return fail(Code::kTimeout, fmt::format("silent for {} ms", shared_.options.silent_ms));
  return {};
}

void PoolMember::renew_rates(std::int64_t now_ns) {
  const MutexLock lock(shared_.mutex);
  const double seconds = static_cast<double>(now_ns - rates_ns_) / 1e9;
  const auto renew = [&](double& rate, std::uint64_t now, std::uint64_t& before) {
    const double fresh = static_cast<double>(now - before) / seconds;
    rate = rate == 0 ? fresh : (rate + fresh) / 2;
    before = now;
  };
  if (rates_ns_ != 0) {
    renew(figures_.results_per_s, figures_.results, rate_results_);
    renew(figures_.bytes_per_s, figures_.received_bytes, rate_bytes_);
  }
  figures_.link_out_bytes_per_s = link_rate_.look(connection_->fd());
  rates_ns_ = now_ns;
}

/// Half of the wait to all of it, by chance, so that a fleet does not come back as one.
std::int64_t PoolMember::next_delay_ns(bool parked) {
  const PoolOptions& options = shared_.options;
  std::uint64_t wait_ms = options.park_ms;
  if (!parked) {
    std::uint64_t failures = 0;
    {
      const MutexLock lock(shared_.mutex);
      failures = figures_.failures;
    }
    const std::uint64_t doublings = std::min<std::uint64_t>(failures, 20);
    wait_ms = std::min(options.backoff_max_ms, options.backoff_min_ms << (doublings > 0 ? doublings - 1 : 0));
  }
  const std::uint64_t half_ns = wait_ms * static_cast<std::uint64_t>(kNsPerMs) / 2;
  return static_cast<std::int64_t>(half_ns + (half_ns > 0 ? random_.next_below(half_ns) : 0));
}

/// A worker that wants TLS has no words for who speaks none, and the other way round: what is likely, and the cure.
Error PoolMember::explain(const Error& reason) const {
  Error out = reason;
  if (!connection_ || welcome_ || address_.is_unix()) return out;
  if (!shared_.tls && reason.code == Code::kClosed && !reason.message.starts_with(kItSays))
    out.message +=
        " before it said who it is: where it wants TLS, this side needs it too; give certificates "
        "(remote_tls=, or certificate, key and authority of [remote] in caryad.toml)";
  if (shared_.tls && reason.message.ends_with(kSpeaksNoTls))
    out.message +=
        "; start the worker with --cert, --key and --ca, or say insecure here in place of the certificates "
        "(remote_tls=, or [remote] in caryad.toml)";
  return out;
}

/// Nothing is written anywhere any more before anybody hears that a request was lost.
void PoolMember::disconnect(const Error& reason, std::int64_t now_ns, bool failure) {
  const Error explained = failure ? explain(reason) : reason;
  if (connection_) {
    if (reason.code != Code::kClosed) {
      connection_->send(ErrorIs{reason});
      connection_->flush();
    }
    shared_.poller.forget(connection_->fd());
    connection_->close();
  }
  std::vector<std::uint64_t> lost;
  bool parked = false;
  {
    const MutexLock lock(shared_.mutex);
    if (welcome_ && failure) ++figures_.ended;
    for (const auto& [request, one] : outstanding_) {
      if (one.withdrawn) continue;
      lost.push_back(request);
      shared_.member_of.erase(request);
    }
    outstanding_.clear();
    written_.clear();
    cancelled_.clear();
    registered_plans_.clear();
    connection_.reset();
    figures_.in_flight = {};
    figures_.lost += lost.size();
    figures_.reason = explained.message;
    if (failure) ++figures_.failures;
    parked = figures_.failures >= shared_.options.failures_max;
    figures_.state = parked ? State::kParked : State::kDown;
  }
  asked_plans_.clear();
  welcome_ = reads_ = writes_ = false;
  next_try_ns_ = now_ns + next_delay_ns(parked);
  Error said = explained;
  said.message = "worker " + address_.text() + ": " + said.message;
  for (const std::uint64_t request : lost) shared_.events.lost(request, said);
  shared_.events.down(id_, said, parked);
}

Result<ReceiveTarget> PoolMember::place(const FrameHeader& header, const std::string& body) {
  if (header.type != FrameType::kResult)
    return fail(Code::kCorrupt, std::string(frame_name(header.type)) + " is not for a worker to say");
  ASSIGN(const ChunkResult result, decode<ChunkResult>(body));
  {
    const MutexLock lock(shared_.mutex);
    const auto found = outstanding_.find(header.request);
    if (found == outstanding_.end()) return nobody_asked(header);
    if (header.payload_bytes > found->second.result_bytes)
      return fail(Code::kCorrupt, fmt::format("a result of {} B; asked for: {}", header.payload_bytes,
                                              found->second.result_bytes));
    if (found->second.withdrawn) return ReceiveTarget{};
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
      const MutexLock lock(shared_.mutex);
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
        const MutexLock lock(shared_.mutex);
        figures_.window = credit.window;
      }
      shared_.events.room(id_);
      return {};
    }
    case FrameType::kDrain: {
      const MutexLock lock(shared_.mutex);
      figures_.state = WorkerStats::State::kDraining;
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
    const MutexLock lock(shared_.mutex);
    figures_.state = WorkerStats::State::kUp;
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
    const MutexLock lock(shared_.mutex);
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
    said.error.message = kItSays + said.error.message;
    return std::unexpected(std::move(said.error));
  }
  if (asked_plans_.contains(header.request))
    shared_.events.registered(id_, header.request, std::unexpected(std::move(said.error)));
  return {};
}

Result<bool> PoolMember::finish(std::uint64_t request, std::uint64_t payload_bytes, bool result) {
  const MutexLock lock(shared_.mutex);
  const auto found = outstanding_.extract(request);
  if (found.empty())
    return fail(Code::kCorrupt, fmt::format("an answer to request {}, which was not asked", request));
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
    const MutexLock lock(shared_.mutex);
    registered_plans_.erase(unknown.plan);
    asked_plans_.erase(unknown.plan);  // asked again with what is sent next
  }
  ASSIGN(const bool wanted, finish(header.request, 0, false));
  error.message = "worker " + address_.text() + ": " + error.message;
  const bool lost = error.code == Code::kClosed;
  {
    const MutexLock lock(shared_.mutex);
    if (wanted) ++(lost ? figures_.lost : figures_.failed);
  }
  if (wanted && lost) shared_.events.lost(header.request, error);
  if (wanted && !lost) shared_.events.failed(header.request, error);
  shared_.events.room(id_);
  return {};
}

}  // namespace carya::remote
