#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "loader/control/documents.h"
#include "loader/job/rank_stream.h"

namespace carya::loader {

/// kInvalidArgument: "job <job>: <what>".
std::unexpected<Error> refuse(const std::string& job, const std::string& what);

/// How a reader left.
enum class Leaving : std::uint8_t {
  kClosed,  ///< it said so, and may still look at what it holds: nothing of that is rewritten
  kDied,    ///< its process is gone: its rank is kept warm for a successor
  kThrown,  ///< it lied: it loses what it holds
};

/// One rank of a job: its stream, and the replicas that read it. Replicas gather before the stream begins, come again
/// beside the others, move together, leave one by one. Threads: under the job table's lock.
struct HostRank {
  struct Member {
    std::uint32_t reader = 0;  ///< of the ring
    std::uint64_t pid = 0;
    std::int64_t since_ns = 0;
    std::uint64_t seeks = 0;  ///< that it has asked for
    transforms::OnError on_error{};
  };
  /// A reader that closed its loader while others go on, and may still look at what it holds.
  struct Departed {
    std::uint32_t reader = 0;  ///< of the ring, retired
    UniqueFd process;          ///< pidfd
  };

  std::shared_ptr<RankStream> stream;
  JobOptions options;
  bool threads_auto = false;                ///< as many as the cores that are allowed
  std::map<std::uint32_t, Member> members;  ///< by replica
  std::vector<Departed> departed;
  std::uint32_t replicas = 1;
  bool started = false;
  bool running = false;  ///< all replicas have come since it was last without any; some may have left again
  std::uint64_t session = 0;              ///< that all members read
  std::uint64_t epoch = 0, position = 0;  ///< where that session begins
  std::optional<std::uint64_t> from;  ///< while they gather: the sequence that all begin with; none: all do
  std::uint64_t seeks = 0;
  std::int64_t lingers_until_ns = 0;  ///< 0: somebody reads it
  std::uint64_t quarantined = 0;
  // For rates: samples at an earlier moment.
  std::uint64_t samples_before = 0;
  std::int64_t before_ns = 0;
  double samples_per_s = 0;

  /// Whether a replica that comes agrees with the others. Errors: kInvalidArgument with what differs.
  Status check_place(const AttachRequest& request) const;
  /// Give a replica that agrees with the others a reader of the ring; start the stream when it is the last to come.
  /// With an error the rank lingers for `linger_s` if nobody else reads it. Errors: kInvalidArgument: the others are
  /// past its place; those of the stream.
  Result<std::uint32_t> join(const AttachRequest& request, std::uint64_t pid, double linger_s);
  /// The session after a seek of `replica`. Replicas must ask for the same place; the first of them moves the stream.
  /// Errors: kClosed: it has left; kInvalidArgument: the others asked for another place.
  Result<std::uint64_t> seek(const std::string& job, std::uint64_t rank, std::uint32_t replica,
                             const SeekRequest& request);
  /// Whether this replica had another policy before. Errors: kClosed: it has left; those of the stream.
  Result<bool> set_on_error(const std::string& job, std::uint32_t replica, transforms::OnError policy);
  /// A reader leaves and others go on, or a successor may come within `linger_s`. Whoever closed as the last one ends
  /// the rank instead: that is the caller's.
  void part(std::uint32_t reader, Leaving how, const std::string& reason, UniqueFd process, double linger_s);
  /// What those who closed still held is free when they have given it back, or cannot look at it any more.
  void end_departed();

 private:
  Result<std::uint32_t> attach_reader(const AttachRequest& request);
  void linger(double linger_s);
};

}  // namespace carya::loader
