// Who reads a rank: its replicas gather, come again beside the others, move, leave.

#include <poll.h>

#include <algorithm>

#include "base/clock.h"
#include "loader/daemon/job_table.h"

namespace carya::loader {
namespace {

constexpr std::size_t kClassNameBytesMax = 16 << 10;  // of an answer
constexpr std::size_t kExampleBytesMax = 1 << 10;

std::unexpected<Error> refuse(const std::string& job, const std::string& what) {
  return fail(Code::kInvalidArgument, "job " + job + ": " + what);
}

std::string place_text(std::uint64_t epoch, std::uint64_t position) {
  return "epoch " + std::to_string(epoch) + " position " + std::to_string(position);
}

}  // namespace

HostRank* JobTable::rank_of(const Seat& seat) const {
  const auto found = seat.job->ranks.find(seat.rank);
  return found != seat.job->ranks.end() && found->second.stream == seat.stream ? &found->second : nullptr;
}

/// What a replica that comes must agree with. Under the lock.
Status JobTable::check_place(const HostRank& rank, const AttachRequest& request) const {
  const std::string subject = "rank " + std::to_string(request.options.rank);
  if (rank.replicas != request.replicas)
    return refuse(request.job, subject + " has replicas=" + std::to_string(rank.replicas) +
                                   ", this one says " + std::to_string(request.replicas));
  if (const auto taken = rank.members.find(request.replica); taken != rank.members.end())
    return refuse(request.job, subject + " is read by process " + std::to_string(taken->second.pid) +
                                   " already; end that one, or give this loader another name with job=");
  if (rank.members.empty() || rank.running) return {};
  if (rank.epoch != request.options.epoch || rank.position != request.options.position)
    return refuse(request.job, subject + ": replica " + std::to_string(request.replica) + " asks for " +
                                   place_text(request.options.epoch, request.options.position) +
                                   ", replica " + std::to_string(rank.members.begin()->first) + " for " +
                                   place_text(rank.epoch, rank.position) +
                                   "; restore all replicas from the same checkpoint");
  return {};
}

/// A place in the rank's ring, for a replica that agrees with the others. Under the lock.
Result<std::uint32_t> JobTable::attach_reader(HostRank& rank, const AttachRequest& request) const {
  RankStream& stream = *rank.stream;
  const std::uint64_t epoch = request.options.epoch, position = request.options.position;
  end_departed(rank);
  if (rank.running && !rank.members.empty()) {  // beside others, which are not to be disturbed
    const auto from = stream.sequence_at(epoch, position);
    Result<std::uint32_t> reader = from ? stream.attach_reader(*from) : fail(Code::kNotFound, "");
    if (reader || reader.error().code != Code::kNotFound) return reader;
    const ProductionStats made = stream.figures().production;
    return refuse(request.job, "rank " + std::to_string(request.options.rank) + ": replica " +
                                   std::to_string(request.replica) + " asks for " +
                                   place_text(epoch, position) + ", the others' stream stands at " +
                                   place_text(made.epoch, made.position) +
                                   " and has not all that this one needs; restore all replicas from the same "
                                   "checkpoint, after the others have ended");
  }
  if (rank.members.empty()) {  // the first: the others must ask for its place
    rank.epoch = epoch;
    rank.position = position;
    rank.seeks = 0;
    rank.running = false;
    rank.from.reset();
    if (rank.started)  // it lingered: what is ready is not made again
      if (const auto from = stream.sequence_at(epoch, position)) {
        Result<std::uint32_t> reader = stream.attach_reader(*from);
        if (reader) {
          rank.from = from;
          rank.session = stream.session();
          stream.take_up(*from);
        }
        if (reader || reader.error().code != Code::kNotFound) return reader;
      }
    // A stream that begins where the request says needs no seek: it was made there.
    const bool here = !rank.started && rank.options.epoch == epoch && rank.options.position == position;
    rank.session = here ? stream.session() : stream.place(epoch, position);
  }
  return rank.from ? stream.attach_reader(*rank.from) : stream.attach_reader();
}

/// The last replica has come. Under the lock.
Status JobTable::set_going(HostRank& rank) const {
  rank.stream->resume();
  if (!rank.started) TRY(rank.stream->start());
  rank.started = true;
  rank.running = true;
  return {};
}

/// Nobody reads it any more, and a successor may come. Under the lock.
void JobTable::linger(HostRank& rank) const {
  rank.running = false;
  rank.stream->pause();
  rank.lingers_until_ns = monotonic_ns() + static_cast<std::int64_t>(limits_.linger_s * 1e9);
}

/// What those who closed still held is free when they have given it back, or cannot look at it any more.
/// Under the lock.
void JobTable::end_departed(HostRank& rank) {
  std::erase_if(rank.departed, [&](const HostRank::Departed& one) {
    pollfd process{.fd = one.process.get(), .events = POLLIN, .revents = 0};
    const bool ended = one.process && poll(&process, 1, 0) > 0;
    if (!ended && !rank.stream->is_done(one.reader)) return false;
    rank.stream->detach_reader(one.reader, ended ? "its process ended" : "it has left");
    return true;
  });
}

/// Under the lock.
Result<JobTable::Attachment> JobTable::take_seat(const std::shared_ptr<HostJob>& job, HostRank& rank,
                                                 const Arrival& arrival) {
  const AttachRequest& request = arrival.request;
  ASSIGN(const std::uint32_t reader, attach_reader(rank, request));
  rank.lingers_until_ns = 0;
  rank.members[request.replica] = {.reader = reader,
                                   .pid = arrival.pid,
                                   .since_ns = monotonic_ns(),
                                   .seeks = rank.seeks,
                                   .on_error = rank.options.on_error};
  if (rank.members.size() == rank.replicas && !rank.running) {
    if (Status going = set_going(rank); !going) {
      rank.stream->detach_reader(reader, "the stream could not be started");
      rank.members.erase(request.replica);
      if (rank.members.empty()) linger(rank);
      return std::unexpected(std::move(going.error()));
    }
  }
  Attachment result{.seat = {job, request.options.rank, request.replica, reader, rank.stream}};
  result.answer = {.job = job->name,
                   .dataset = job->dataset->fingerprint(),
                   .shape = rank.stream->shape(),
                   .seed = rank.stream->seed(),
                   .threads = rank.stream->threads(),
                   .slots = rank.stream->slots(),
                   .session = rank.session};
  result.answer.order = rank.options.order;
  const io::ListingReport& listing = job->dataset->report();
  result.answer.skipped_count = listing.skipped_count;
  for (const std::string& name : listing.skipped_examples)
    result.answer.skipped_examples.push_back(name.substr(0, kExampleBytesMax));
  std::size_t name_bytes = 0;
  for (const std::string& name : job->dataset->class_names()) name_bytes += name.size() + 9;
  if (name_bytes <= kClassNameBytesMax) result.answer.class_names = job->dataset->class_names();
  return result;
}

Result<std::uint64_t> JobTable::seek(const Seat& seat, const SeekRequest& request) {
  const std::lock_guard lock(mutex_);
  HostRank* const found = rank_of(seat);
  if (found == nullptr)
    return fail(Code::kClosed, "job " + seat.job->name + ": was stopped; make a new Loader from its state");
  HostRank& rank = *found;
  const auto seated = rank.members.find(seat.replica);
  if (seated == rank.members.end())
    return fail(Code::kClosed,
                "job " + seat.job->name + ": this reader has left; make a new Loader from its state");
  HostRank::Member& member = seated->second;
  if (!rank.running)
    return refuse(seat.job->name, "rank " + std::to_string(seat.rank) + " waits for its other replicas");
  // Whoever asked for the present place may have left.
  const bool ahead_left = std::ranges::none_of(
      rank.members, [&](const auto& other) { return other.second.seeks > member.seeks; });
  if (ahead_left && (rank.epoch != request.epoch || rank.position != request.position))
    member.seeks = rank.seeks;
  if (member.seeks == rank.seeks) {  // the first to ask
    ASSIGN(rank.session, rank.stream->seek(request.epoch, request.position));
    rank.epoch = request.epoch;
    rank.position = request.position;
    ++rank.seeks;
  } else if (rank.epoch != request.epoch || rank.position != request.position) {
    return refuse(seat.job->name, "rank " + std::to_string(seat.rank) + ": replica " +
                                      std::to_string(seat.replica) + " asks for " +
                                      place_text(request.epoch, request.position) +
                                      ", another one asked for " + place_text(rank.epoch, rank.position));
  }
  ++member.seeks;
  return rank.session;
}

Result<Found> JobTable::take_found(const Seat& seat, std::uint64_t sequence) {
  ASSIGN(Found found, seat.stream->take_found(sequence));
  const std::lock_guard lock(mutex_);
  if (HostRank* const rank = rank_of(seat); rank != nullptr) rank->quarantined += found.quarantine.size();
  return found;
}

Result<bool> JobTable::set_on_error(const Seat& seat, transforms::OnError policy) {
  const std::lock_guard lock(mutex_);
  HostRank* const rank = rank_of(seat);
  if (rank == nullptr)
    return fail(Code::kClosed, "job " + seat.job->name + ": was stopped; make a new Loader from its state");
  const auto seated = rank->members.find(seat.replica);
  if (seated == rank->members.end())
    return fail(Code::kClosed,
                "job " + seat.job->name + ": this reader has left; make a new Loader from its state");
  TRY(rank->stream->set_on_error(policy));
  rank->options.on_error = policy;  // what one that comes must ask for
  return std::exchange(seated->second.on_error, policy) != policy;
}

void JobTable::leave(const Seat& seat, Leaving how, const std::string& reason, UniqueFd process) {
  std::vector<std::shared_ptr<RankStream>> ended;  // closed without the lock
  {
    const std::lock_guard lock(mutex_);
    HostRank* const found = rank_of(seat);
    if (found == nullptr) return;
    HostRank& rank = *found;
    rank.members.erase(seat.replica);
    if (how != Leaving::kClosed) {
      if (rank.members.empty() && rank.started && how == Leaving::kDied)
        rank.stream->linger(seat.reader, reason);
      else
        rank.stream->detach_reader(seat.reader, reason);
      if (rank.members.empty()) linger(rank);
    } else if (rank.members.empty()) {
      // Arrays of this reader may live on: no slot of its ring is ever written again.
      end_rank(*seat.job, seat.rank, ended);
    } else {  // those that it holds are not; the other replicas go on with the rest
      rank.stream->retire_reader(seat.reader, reason);
      rank.departed.push_back({.reader = seat.reader, .process = std::move(process)});
      end_departed(rank);
    }
  }
  for (const auto& stream : ended) stream->close();
}

}  // namespace carya::loader
