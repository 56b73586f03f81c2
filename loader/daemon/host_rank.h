#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "loader/control/documents.h"
#include "loader/job/local_stream.h"
#include "loader/job/op_cpu.h"

namespace carya::loader {

/// kInvalidArgument: "job <job>: <what>".
std::unexpected<Error> refuse(const std::string& job, const std::string& what);

/// Entries of broken records that are kept of a rank, for who watches.
inline constexpr std::size_t kBrokenKept = 24;

/// How a reader left.
enum class DetachReason : std::uint8_t {
  kClosed,  ///< the reader said so; its process may still look at the slots that it holds, so they stay as they are
  kDied,    ///< the reader's process ended; the rank is kept for a successor
  kThrown,  ///< the reader lied and loses the slots that it holds
};

/// The order of operations that is part of a stream's bits; nothing where it is not.
std::vector<std::size_t> order_with_other_bits(const JobOptions& options);

/// Whether a stream made with `have` serves one who asks for `want`; else what differs.
std::string difference(const JobOptions& have, const JobOptions& want);
/// Whether it makes the same batches in the same steps, whatever part of the cores each asks for.
bool makes_the_same(const JobOptions& have, JobOptions want);

/// One rank of a job: its stream, and the replicas that read it. The replicas gather before the stream begins, may
/// attach again while others read, seek together, and detach one by one. Threads: under the job table's lock.
struct HostRank {
  struct Member {
    std::uint32_t reader = 0;  ///< the reader's number in the ring
    std::uint64_t pid = 0;
    std::int64_t since_ns = 0;
    std::uint64_t seeks = 0;  ///< how many seeks the replica has asked for
    std::uint64_t told = 0;   ///< the sequence up to which it was told of broken records
    transforms::OnError on_error{};
    bool parted = false;        ///< of a shared rank: it gets no more slots, and comes again elsewhere
    double kept_waiting_s = 0;  ///< of a shared rank: how long others waited for it, less what they may wait
    std::uint64_t waited_ns = 0;  ///< of a shared rank: how long it says it has waited, at the last look
  };
  /// A reader that closed its loader while others continue. Its process may still look at the slots that it holds.
  struct Departed {
    std::uint32_t reader = 0;  ///< the reader's number in the ring, retired
    std::uint32_t replica = 0;
    std::uint64_t pid = 0;
    UniqueFd process{};  ///< pidfd
  };

  std::shared_ptr<LocalStream> stream;
  /// How its stores are asked, by what its members lend; null: there are none. No connection holds this object.
  std::shared_ptr<io::StoreAccess> access;
  JobOptions options;
  bool threads_auto = false;                ///< the stream has as many threads as cores are allowed
  std::map<std::uint32_t, Member> members;  ///< keyed by replica
  std::vector<Departed> departed;
  std::uint32_t replicas = 1;  ///< how many the first batch waits for
  /// Its readers are independent jobs. Each comes where the stream is, goes where it likes, and is parted from the rest
  /// when it keeps them waiting; it then attaches again, there or elsewhere. Their replica numbers are given here.
  bool shared = false;
  std::uint32_t members_ever = 0;     ///< numbers given to members of a shared rank
  std::int64_t shares_looked_ns = 0;  ///< when its members were last looked at; 0: never
  std::uint32_t short_of_slots = 0;   ///< how many looks in a row readers that were sent away held too many
  bool given_up = false;              ///< for that: nobody joins a shared rank any more
  std::uint32_t lagged = 0;  ///< how often some of its members were sent away since they kept others waiting
  std::int64_t closed_until_ns = 0;   ///< for that: nobody joins those that read it before
  std::int64_t gathers_until_ns = 0;  ///< then a shared rank begins with those that are there
  bool started = false;
  bool moved = false;         ///< it is no longer where it was made
  bool running = false;       ///< true once all replicas have attached; stays true until none is attached
  std::uint64_t session = 0;  ///< the session that all members read
  std::uint64_t epoch = 0, position = 0;  ///< where that session begins
  std::optional<std::uint64_t>
      from;  ///< while replicas gather: the first sequence of all; none: the ring's first
  std::uint64_t seeks = 0;
  std::int64_t lingers_until_ns = 0;  ///< 0: a reader is attached
  std::uint64_t quarantined = 0;      ///< entries that a reader was told of, each counted once
  std::uint64_t told = 0;             ///< the sequence up to which they are counted
  std::deque<RecordError> broken;     ///< the last kBrokenKept of them
  // Samples at an earlier moment, from which rates are computed.
  std::uint64_t samples_before = 0;
  std::int64_t before_ns = 0;
  double samples_per_s = 0;
  OpCpu op_cpu;

  /// Check that a replica that attaches agrees with the others. Errors: kInvalidArgument with what differs; kNotFound if
  /// the rank is shared and waits at another place.
  Status check_place(const AttachRequest& request) const;
  struct Joined {
    std::uint32_t reader = 0, replica = 0;
  };
  /// Give a reader of the ring to a replica that agrees with the others, and start the stream when it is the last one
  /// to attach. After an error the rank lingers for `linger_s` if no other replica reads it. Errors: kInvalidArgument
  /// (the others are past its place; kNotFound if the rank is shared); those of the stream.
  Result<Joined> join(const AttachRequest& request, std::uint64_t pid, double linger_s);
  /// Start the stream with those that are there.
  Status begin();
  /// Seek on behalf of `replica`, and return the session that begins there. All replicas must ask for the same place;
  /// the first of them moves the stream. Errors: kClosed (the replica has detached), kInvalidArgument (the others asked
  /// for another place). A member of a shared rank that is not alone is parted: kClosed, and it attaches again at its
  /// place; one that waits alone for others goes on waiting there.
  Result<std::uint64_t> seek(const std::string& job, std::uint64_t rank, std::uint32_t replica,
                             const SeekRequest& request);
  /// The entries that this replica was not told of, of the batches up to this sequence. Each replica is told of all.
  DeliveredErrors take_errors(std::uint32_t replica, std::uint64_t sequence);
  /// Set the policy of one replica. Returns whether it had another one before. Errors: kClosed (the replica has
  /// detached); those of the stream.
  Result<bool> set_on_error(const std::string& job, std::uint32_t replica, transforms::OnError policy);
  /// Detach `who`, a reader. The other replicas continue, or a successor may attach within `linger_s`. When the last reader
  /// closes, the caller ends the rank instead of calling this.
  void part(Departed who, DetachReason how, const std::string& reason, double linger_s);
  /// Free the slots of departed readers that have released them or whose processes have ended.
  void end_departed();
  /// Members that are not parted.
  std::size_t live() const;
  /// A shared rank's member gets no more slots; those that it holds stay its own until it leaves.
  void send_away(Member& member, const std::string& reason);
  void send_all_away(const std::string& reason);

 private:
  std::unexpected<Error> send_elsewhere(const std::string& job, Member& member);
  Result<std::uint32_t> attach_reader(const AttachRequest& request);
  std::uint64_t place();
  void linger(double linger_s);
};

}  // namespace carya::loader
