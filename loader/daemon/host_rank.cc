#include "loader/daemon/host_rank.h"

#include <poll.h>

#include <fmt/core.h>
#include <algorithm>
#include <iterator>

#include "base/clock.h"
#include "loader/daemon/job_table.h"

namespace carya::loader {
namespace {

std::string place_text(std::uint64_t epoch, std::uint64_t position) {
  return fmt::format("epoch {} position {}", epoch, position);
}

}  // namespace

std::unexpected<Error> refuse(const std::string& job, const std::string& what) {
  return fail(Code::kInvalidArgument, "job " + job + ": " + what);
}

std::string difference(const JobOptions& have, const JobOptions& want) {
  if (have.world_size != want.world_size) return "world_size";
  if (have.epochs != want.epochs) return "epochs";
  if (have.seed != want.seed) return "seed";
  if (have.on_error != want.on_error) return "on_error";
  if (have.prefetch_epochs != want.prefetch_epochs) return "prefetch_epochs";
  if (have.label_int32 != want.label_int32) return "dtype of labels";
  if (have.order != want.order) return "order of ops";
  if (have.weight != want.weight) return "weight";
  return "";
}

bool makes_the_same(const JobOptions& have, JobOptions want) {
  want.weight = have.weight;
  return difference(have, want).empty();
}

Status HostRank::check_place(const AttachRequest& request) const {
  if (shared) {
    if (given_up || !makes_the_same(options, request.options))
      return fail(Code::kNotFound, "share: it is another one");
    if (!members.empty() && monotonic_ns() < closed_until_ns)
      return fail(Code::kNotFound, "share: it takes nobody in after one that fell behind");
    const bool here = epoch == request.options.epoch && position == request.options.position;
    return members.empty() || running || here ? Status()
                                              : fail(Code::kNotFound, "share: it begins elsewhere");
  }
  const std::string subject = fmt::format("rank {}", request.options.rank);
  if (replicas != request.replicas)
    return refuse(request.job,
                  fmt::format("{} has replicas={}, this one says {}", subject, replicas, request.replicas));
  if (const auto taken = members.find(request.replica); taken != members.end())
    return refuse(
        request.job,
        fmt::format(
            "{} is read by process {} already; end that one, or give this loader another name with job=",
            subject, taken->second.pid));
  if (members.empty() || running) return {};
  if (epoch != request.options.epoch || position != request.options.position)
    return refuse(
        request.job,
        fmt::format(
            "{}: replica {} asks for {}, replica {} for {}; restore all replicas from the same checkpoint",
            subject, request.replica, place_text(request.options.epoch, request.options.position),
            members.begin()->first, place_text(epoch, position)));
  return {};
}

/// A place in the rank's ring, for a replica that agrees with the others.
Result<std::uint32_t> HostRank::attach_reader(const AttachRequest& request) {
  LocalStream& ring = *stream;
  const std::uint64_t to_epoch = request.options.epoch, to_position = request.options.position;
  end_departed();
  if (running && !members.empty()) {  // beside others, which are not to be disturbed
    const auto at = ring.sequence_at(to_epoch, to_position);
    Result<std::uint32_t> reader = at ? ring.attach_reader(*at) : fail(Code::kNotFound, "");
    if (reader) return reader;
    if (shared) return fail(Code::kNotFound, "share: it is elsewhere, or has as many readers as can be");
    if (reader.error().code != Code::kNotFound) return reader;
    const SchedulerStats made = ring.figures().scheduler;
    return refuse(
        request.job,
        fmt::format(
            "rank {}: replica {} asks for {}, the others' stream stands at {} and has not all that this one "
            "needs; restore all replicas from the same checkpoint, after the others have ended",
            request.options.rank, request.replica, place_text(to_epoch, to_position),
            place_text(made.epoch, made.position)));
  }
  if (members.empty()) {  // the first: the others must ask for its place
    epoch = to_epoch;
    position = to_position;
    seeks = 0;
    running = false;
    from.reset();
    if (started)  // it lingered: what is ready is not made again
      if (const auto at = ring.sequence_at(to_epoch, to_position)) {
        Result<std::uint32_t> reader = ring.attach_reader(*at);
        if (reader) {
          from = at;
          session = ring.session();
          ring.take_up(*at);
        }
        if (reader || reader.error().code != Code::kNotFound) return reader;
      }
    // A stream that was made where the request says, and is there still, needs no seek.
    const bool here = !moved && options.epoch == to_epoch && options.position == to_position;
    session = here ? ring.session() : place();
  }
  return from ? ring.attach_reader(*from) : ring.attach_reader();
}

/// Move the stream, which does not run, to where its readers begin.
std::uint64_t HostRank::place() {
  moved = true;
  return stream->place(epoch, position);
}

/// Nobody reads it any more, and a successor may come.
void HostRank::linger(double linger_s) {
  running = false;
  stream->pause();
  lingers_until_ns = monotonic_ns() + static_cast<std::int64_t>(linger_s * 1e9);
}

void HostRank::end_departed() {
  std::erase_if(departed, [&](const HostRank::Departed& one) {
    pollfd process{.fd = one.process.get(), .events = POLLIN, .revents = 0};
    const bool ended = one.process && poll(&process, 1, 0) > 0;
    if (!ended && !stream->is_done(one.reader)) return false;
    stream->detach_reader(one.reader, ended ? "its process ended" : "it has left");
    return true;
  });
}

std::size_t HostRank::live() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(members, [](const auto& member) { return !member.second.parted; }));
}

Result<HostRank::Joined> HostRank::join(const AttachRequest& request, std::uint64_t pid, double linger_s) {
  // Beside others, who may not have been told of all that lies before its place.
  const auto at = running && !members.empty()
                      ? stream->sequence_at(request.options.epoch, request.options.position)
                      : std::nullopt;
  ASSIGN(const std::uint32_t reader, attach_reader(request));
  const std::uint32_t replica = shared ? members_ever++ : request.replica;
  lingers_until_ns = 0;
  members[replica] = {.reader = reader,
                      .pid = pid,
                      .since_ns = monotonic_ns(),
                      .seeks = seeks,
                      .told = at ? *at - 1 : 0,
                      .on_error = options.on_error};
  if (live() < replicas || running) return Joined{reader, replica};
  if (Status going = begin(); !going) {
    stream->detach_reader(reader, "the stream could not be started");
    members.erase(replica);
    if (members.empty()) linger(linger_s);
    return std::unexpected(std::move(going.error()));
  }
  return Joined{reader, replica};
}

Status HostRank::begin() {
  stream->resume();
  if (!started) TRY(stream->start());
  started = running = moved = true;
  if (shared) replicas = 1;  // whoever comes later waits for nobody
  return {};
}

void HostRank::send_away(Member& member, const std::string& reason) {
  member.parted = true;
  stream->retire_reader(member.reader, reason);
}

void HostRank::send_all_away(const std::string& reason) {
  for (auto& [replica, member] : members)
    if (!member.parted) send_away(member, reason);
}

/// kClosed: whoever asked attaches again.
std::unexpected<Error> HostRank::send_elsewhere(const std::string& job, Member& member) {
  send_away(member, "it goes on elsewhere");
  return fail(Code::kClosed, "job " + job + ": goes on without this reader");
}

Result<std::uint64_t> HostRank::seek(const std::string& job, std::uint64_t rank, std::uint32_t replica,
                                     const SeekRequest& request) {
  const auto seated = members.find(replica);
  if (seated == members.end())
    return fail(Code::kClosed, "job " + job + ": this reader has left; make a new Loader from its state");
  Member& member = seated->second;
  if (member.parted || (shared && live() > 1)) return send_elsewhere(job, member);
  if (!running && shared) {  // alone: it waits for the others there
    epoch = request.epoch;
    position = request.position;
    from.reset();
    return session = place();
  }
  if (!running) return refuse(job, fmt::format("rank {} waits for its other replicas", rank));
  // Whoever asked for the present place may have left.
  const bool ahead_left =
      std::ranges::none_of(members, [&](const auto& other) { return other.second.seeks > member.seeks; });
  if (ahead_left && (epoch != request.epoch || position != request.position)) member.seeks = seeks;
  if (member.seeks == seeks) {  // the first to ask
    ASSIGN(session, stream->seek(request.epoch, request.position));
    epoch = request.epoch;
    position = request.position;
    ++seeks;
  } else if (epoch != request.epoch || position != request.position) {
    return refuse(job, fmt::format("rank {}: replica {} asks for {}, another one asked for {}", rank, replica,
                                   place_text(request.epoch, request.position), place_text(epoch, position)));
  }
  ++member.seeks;
  return session;
}

DeliveredErrors HostRank::take_errors(std::uint32_t replica, std::uint64_t sequence) {
  const auto seated = members.find(replica);
  if (seated == members.end()) return {};
  // A replica asks for every batch that has entries, so nobody needs those that the slowest was told of.
  const std::uint64_t behind = std::exchange(seated->second.told, std::max(seated->second.told, sequence));
  std::uint64_t all = UINT64_MAX;
  for (const auto& [number, member] : members) all = std::min(all, member.told);
  if (sequence > told) {
    std::vector<RecordError> found = stream->errors(told, sequence, 0).quarantine;
    quarantined += found.size();
    std::ranges::move(found, std::back_inserter(broken));
    if (broken.size() > kBrokenKept)
      broken.erase(broken.begin(), broken.end() - static_cast<std::ptrdiff_t>(kBrokenKept));
    told = sequence;
  }
  return stream->errors(behind, sequence, all);
}

Result<bool> HostRank::set_on_error(const std::string& job, std::uint32_t replica,
                                    transforms::OnError policy) {
  const auto seated = members.find(replica);
  if (seated == members.end())
    return fail(Code::kClosed, "job " + job + ": this reader has left; make a new Loader from its state");
  const bool stays = !shared || policy == options.on_error || live() == 1;
  if (seated->second.parted || !stays) return send_elsewhere(job, seated->second);
  TRY(stream->set_on_error(policy));
  options.on_error = policy;  // what one that comes must ask for
  return std::exchange(seated->second.on_error, policy) != policy;
}

void HostRank::part(Departed who, DetachReason how, const std::string& reason, double linger_s) {
  const std::uint32_t reader = who.reader;
  if (how == DetachReason::kClosed) {
    // What this reader holds is not written again; the other replicas go on with the rest.
    stream->retire_reader(reader, reason);
    departed.push_back(std::move(who));
    end_departed();
    return;
  }
  if (members.empty() && started && how == DetachReason::kDied)
    stream->linger(reader, reason);
  else
    stream->detach_reader(reader, reason);
  if (members.empty()) linger(linger_s);
}

std::vector<std::size_t> order_with_other_bits(const JobOptions& options) {
  return options.reorder > autotune::Sense::kExact ? options.order : std::vector<std::size_t>{};
}

Status HostJob::check_same(const AttachRequest& request, const std::string& asked_store,
                           const transforms::Pipeline& asked, const Dataset& found) const {
  if (pipeline->to_json() != asked.to_json())
    return refuse(request.job, "is another pipeline; give this one another name with job=");
  if (dataset->fingerprint() != found.fingerprint())
    return refuse(request.job,
                  "reads another state of the dataset: it changed since the job began; "
                  "stop the job, then start all its ranks");
  if (world_size != request.options.world_size)
    return refuse(request.job, fmt::format("has world_size {}, this rank says {}", world_size,
                                           request.options.world_size));
  if (store_key != asked_store)
    return refuse(request.job,
                  "reads its store by another endpoint, proxy or authority; give all ranks the same");
  if (order != order_with_other_bits(request.options))
    return refuse(request.job,
                  "runs its ops in another order; give all its ranks the same reorder=, plan= and state=");
  return {};
}

}  // namespace carya::loader
