#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "loader/control/documents.h"
#include "loader/control/sealed_bytes.h"
#include "loader/daemon/core_shares.h"
#include "loader/daemon/data_roots.h"
#include "loader/daemon/memory_share.h"
#include "loader/job/rank_stream.h"

namespace carya::loader {

/// What one daemon may hold.
struct JobLimits {
  std::uint64_t jobs = 64;
  std::uint64_t readers = 256;
  std::uint64_t shared_bytes = UINT64_MAX;  ///< slots and arrays of all jobs
  std::uint32_t threads = 0;  ///< of a job that does not say; 0: the cores allowed, also when they change
  AllowedFolders folders;     ///< that clients may name
  double linger_s = 60;       ///< a rank whose reader died is kept warm so long, and a dataset nobody uses
  /// Of jobs whose loader names no workers; without workers: those make all samples here.
  RemoteOptions remote{.prices = {.host_per_hour = 4.96, .worker_per_hour = 0.427319}};

  bool operator==(const JobLimits&) const = default;
};

/// One rank of a job: its stream and who reads it.
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
};

/// One job: a pipeline over a dataset, for several ranks.
struct HostJob {
  std::string name;
  std::shared_ptr<const transforms::Pipeline> pipeline;
  std::shared_ptr<const Dataset> dataset;
  std::vector<std::shared_ptr<const SealedBytes>> memory;  ///< of arrays
  SharedBudget::Part memory_part;
  std::uint64_t world_size = 1;
  std::vector<std::size_t> order;  ///< JobOptions::order of all ranks, where it changes bits
  std::map<std::uint64_t, HostRank> ranks;
  bool ended = false;    ///< out of the table
  bool stopped = false;  ///< by an operator
};

/// A reader's place in a job.
struct Seat {
  std::shared_ptr<HostJob> job;
  std::uint64_t rank = 0;
  std::uint32_t replica = 0;
  std::uint32_t reader = 0;  ///< of the ring
  std::shared_ptr<RankStream> stream;
};

/// What came with a request to attach.
struct Arrival {
  AttachRequest request;
  std::shared_ptr<const SealedBytes> document;
  std::vector<std::shared_ptr<const SealedBytes>> arrays;  ///< as the request lists them
  std::uint64_t pid = 0;
};

/// Whether a seat's stream still runs.
enum class SeatState : std::uint8_t {
  kLive,
  kRankEnded,   ///< a new stream may be had
  kJobStopped,  ///< by an operator
};

/// How a reader left.
enum class Leaving : std::uint8_t {
  kClosed,  ///< it said so, and may still look at what it holds: nothing of that is rewritten
  kDied,    ///< its process is gone: its rank is kept warm for a successor
  kThrown,  ///< it lied: it loses what it holds
};

/// The jobs of a daemon. Threads: thread-safe; attach() may take as long as a listing, and others do not wait
/// for it.
class JobTable {
 public:
  explicit JobTable(const JobLimits& limits);
  ~JobTable();

  struct Attachment {
    Seat seat;
    Attached answer;
  };
  /// Open what must be opened, make the rank's slots, take a seat. Blocks. Errors: those of the pipeline, the
  /// dataset and the slots; kInvalidArgument when the job exists and is another one, or the seat is taken;
  /// kExhausted with the limit's numbers; kClosed while draining.
  Result<Attachment> attach(const Arrival& arrival, const io::Progress& progress);
  /// The session after a seek. Replicas must ask for the same place; the first of them moves the stream.
  Result<std::uint64_t> seek(const Seat& seat, const SeekRequest& request);
  Result<Found> take_found(const Seat& seat, std::uint64_t sequence);
  /// Whether this reader had another policy before.
  Result<bool> set_on_error(const Seat& seat, transforms::OnError policy);
  /// The other replicas go on. `process` is a pidfd: what one that closed holds is free when that has ended.
  void leave(const Seat& seat, Leaving how, const std::string& reason, UniqueFd process = {});
  SeatState state(const Seat& seat) const;
  /// Whether the seat's reader was found to lie: why.
  std::string lie(const Seat& seat) const;

  /// Forget what lingered long enough, and look at the rates. Gives the nanoseconds until it wants to be
  /// called again; none while there is nothing to look after.
  std::optional<std::int64_t> tick(std::int64_t now_ns);
  void set_limits(const JobLimits& limits);
  /// New jobs are refused from now on.
  void drain();
  /// End a job; its readers find their rings closed. Errors: kNotFound.
  Status stop(const std::string& name);
  void stop_all();
  /// Slots that readers hold.
  std::uint64_t held() const;
  /// Fills in jobs and shared memory.
  void describe(DaemonStatus& status) const;

 private:
  struct OpenDataset {
    std::shared_ptr<const Dataset> dataset;
    std::int64_t used_ns = 0;
  };
  Result<std::shared_ptr<const Dataset>> open_dataset(const Arrival& arrival,
                                                      const transforms::Pipeline& pipeline,
                                                      const AllowedFolders& folders,
                                                      const std::string& cache_dir,
                                                      const io::Progress& progress);
  Result<std::shared_ptr<HostJob>> find_job(const Arrival& arrival,
                                            std::shared_ptr<const transforms::Pipeline> pipeline,
                                            std::shared_ptr<const Dataset> dataset);
  Result<Attachment> take_seat(const std::shared_ptr<HostJob>& job, HostRank& rank, const Arrival& arrival);
  /// Whether some job reads it. Under the lock, as all that follows.
  bool in_use(const std::shared_ptr<const Dataset>& dataset) const;
  bool is_read(const std::shared_ptr<const Dataset>& dataset) const;
  /// The rank whose stream the seat is of; null when that ended.
  HostRank* rank_of(const Seat& seat) const;
  void share_memory(HostRank& rank) const;
  void drop_unlike(const AttachRequest& request, const transforms::Pipeline& pipeline, const Dataset& dataset,
                   std::vector<std::shared_ptr<RankStream>>& ended);
  Status check_place(const HostRank& rank, const AttachRequest& request) const;
  Result<std::uint32_t> attach_reader(HostRank& rank, const AttachRequest& request) const;
  Status set_going(HostRank& rank) const;
  void linger(HostRank& rank) const;
  static void end_departed(HostRank& rank);
  void follow_cores();
  void share_host();
  void follow_memory();
  std::uint64_t readers() const;
  void end_rank(HostJob& job, std::uint64_t rank, std::vector<std::shared_ptr<RankStream>>& ended);

  mutable std::mutex mutex_;
  JobLimits limits_;
  const std::shared_ptr<SharedBudget> budget_;  // limits_.shared_bytes
  bool draining_ = false;
  std::uint32_t cores_;  // allowed now: affinity and quota
  HostShares shares_;
  std::int64_t shared_ns_ = 0;  // when they were last looked at
  MemoryShare memory_;
  std::map<std::string, std::shared_ptr<HostJob>> jobs_;
  std::map<std::string, OpenDataset> datasets_;  // by source and views
};

}  // namespace carya::loader
