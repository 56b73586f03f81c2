#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "loader/cache/cache_limits.h"
#include "loader/control/documents.h"
#include "loader/control/sealed_bytes.h"
#include "loader/daemon/data_roots.h"
#include "loader/daemon/host_rank.h"
#include "loader/daemon/host_shares.h"
#include "loader/daemon/memory_share.h"
#include "loader/job/local_stream.h"
#include "loader/job/outage_log.h"

namespace carya::loader {

/// What one daemon may hold.
struct JobLimits {
  std::uint64_t jobs = 64;
  std::uint64_t readers = 256;
  std::uint64_t shared_bytes = UINT64_MAX;  ///< slots and arrays of all jobs
  CacheLimits cache;                        ///< samples that all jobs keep for later epochs
  std::uint32_t threads = 0;  ///< of a job without threads=; 0: the allowed cores, also when they change
  std::uint32_t cores = 0;    ///< that all jobs may use together; 0: the allowed cores
  AllowedFolders folders;     ///< the folders that clients may name
  double linger_s = 60;       ///< how long a rank whose reader died, and a dataset without a user, are kept
  /// The workers of jobs whose loader names none. Without workers here such jobs make all samples on this host.
  RemoteOptions remote{};

  bool operator==(const JobLimits&) const = default;
};

/// One job: a pipeline over a dataset, for several ranks.
struct HostJob {
  std::uint64_t number = 0;  ///< differs from that of each other job of the daemon
  std::string name;
  std::string share;  ///< of a stream that independent jobs read (AttachRequest::share); else ""
  std::shared_ptr<const transforms::Pipeline> pipeline;
  std::shared_ptr<const Dataset> dataset;
  std::vector<std::shared_ptr<const SealedBytes>> memory;  ///< the arrays of the dataset
  SharedBudget::Part memory_part;
  std::uint64_t world_size = 1;
  std::string store_key;           ///< io::StoreTerms::key() of what its clients lend
  std::vector<std::size_t> order;  ///< JobOptions::order of all ranks, if that order changes bits
  std::map<std::uint64_t, HostRank> ranks;
  bool ended = false;    ///< the table has dropped the job
  bool stopped = false;  ///< an operator stopped the job

  /// Whether it is the job of who asks for it by name, whose own credentials opened this dataset (docs/security.md).
  Status check_same(const AttachRequest& request, const std::string& asked_store,
                    const transforms::Pipeline& asked, const Dataset& found) const;
};

/// A reader's place in a job.
struct Seat {
  std::shared_ptr<HostJob> job;
  std::uint64_t rank = 0;
  std::uint32_t replica = 0;
  std::uint32_t reader = 0;  ///< the reader's number in the ring
  std::shared_ptr<LocalStream> stream;
};

/// What came with a request to attach.
struct AttachCall {
  AttachRequest request;
  std::shared_ptr<const SealedBytes> document;
  std::vector<std::shared_ptr<const SealedBytes>> arrays;  ///< in the order of the request
  std::shared_ptr<io::StoreAccess> access{};               ///< by what the client lends; null: it has no URLs
  std::uint64_t pid = 0;
};

/// Whether a seat's stream still runs.
enum class SeatState : std::uint8_t {
  kLive,
  kRankEnded,   ///< the stream ended; the reader may attach again
  kJobStopped,  ///< an operator stopped the job
  kParted,      ///< the reader is to attach again, where it finds its batches (shared_streams.h)
};

/// The jobs of a daemon. Threads: thread-safe. attach() may take as long as a listing, and no other call waits for
/// it.
class JobTable {
 public:
  /// `log` hears of workers and folders that fail; may be empty.
  explicit JobTable(const JobLimits& limits, Log log = {});
  ~JobTable();

  struct Attachment {
    Seat seat;
    Attached answer;
  };
  /// Open the dataset, make the rank's slots and take a seat, as far as each is not there yet. Blocks. Errors: those
  /// of the pipeline, the dataset and the slots; kInvalidArgument when a job of this name has another pipeline or
  /// dataset, or the seat is taken; kExhausted with the limit's numbers; kClosed while draining.
  Result<Attachment> attach(const AttachCall& call, const io::Progress& progress);
  /// Seek, and return the session that begins there. All replicas must ask for the same place; the first of them
  /// moves the stream.
  Result<std::uint64_t> seek(const Seat& seat, const SeekRequest& request);
  Result<DeliveredErrors> take_errors(const Seat& seat, std::uint64_t sequence);
  /// Set the policy of one reader. Returns whether it had another one before.
  Result<bool> set_on_error(const Seat& seat, transforms::OnError policy);
  /// Detach one reader; the other replicas continue. `process` is a pidfd: the slots that a closed reader still holds
  /// are reused when that process has ended.
  void leave(const Seat& seat, DetachReason how, const std::string& reason, UniqueFd process = {});
  SeatState state(const Seat& seat) const;
  /// Why the seat's reader was found to lie; empty when it was not.
  std::string lie(const Seat& seat) const;

  /// Drop ranks and datasets that have lingered long enough, and update rates and shares. Returns the nanoseconds
  /// until the next call is due, or nothing while there is nothing to look after.
  std::optional<std::int64_t> tick(std::int64_t now_ns);
  void set_limits(const JobLimits& limits);
  /// Refuse new jobs from now on.
  void drain();
  /// End a job. Its readers find their rings closed. Errors: kNotFound.
  Status stop(const std::string& name);
  void stop_all();
  /// All that is known of a job's streams. Looks at files, without the lock. Errors: kNotFound.
  Result<WatchIs> watch(const std::string& name) const;
  /// The streams of a job, as traces number them. Errors: kNotFound.
  Result<std::vector<std::uint64_t>> traced_as(const std::string& name) const;
  /// The number of slots that readers hold, over all jobs.
  std::uint64_t held() const;
  /// Fill in the jobs and the shared memory of a status.
  void describe(DaemonStatus& status) const;

 private:
  struct OpenDataset {
    std::shared_ptr<const Dataset> dataset;
    std::int64_t used_ns = 0;
  };
  Result<std::shared_ptr<const Dataset>> open_dataset(const AttachCall& call,
                                                      const transforms::Pipeline& pipeline,
                                                      const AllowedFolders& folders,
                                                      const std::string& cache_dir,
                                                      const io::Progress& progress);
  /// The streams of a family that make the same.
  struct Family {
    std::vector<std::string> names;
    bool begun = false;            ///< one of them has begun
    std::uint32_t waited_for = 1;  ///< so many jobs are waited for by one that has not
  };
  Result<Attachment> attach_shared(AttachCall call, std::shared_ptr<const transforms::Pipeline> pipeline,
                                   std::shared_ptr<const Dataset> dataset, const JobOptions& options);
  Family streams_like(const AttachCall& call, const transforms::Pipeline& pipeline, const Dataset& dataset,
                      const JobOptions& options) const REQUIRES(mutex_);
  Result<Attachment> attach_to(const AttachCall& call, std::shared_ptr<const transforms::Pipeline> pipeline,
                               std::shared_ptr<const Dataset> dataset, JobOptions options);
  Result<std::shared_ptr<HostJob>> find_job(const AttachCall& call,
                                            std::shared_ptr<const transforms::Pipeline> pipeline,
                                            std::shared_ptr<const Dataset> dataset) REQUIRES(mutex_);
  Result<Attachment> take_seat(const std::shared_ptr<HostJob>& job, HostRank& rank, const AttachCall& call)
      REQUIRES(mutex_);
  /// Whether a job reads the dataset.
  bool in_use(const std::shared_ptr<const Dataset>& dataset) const REQUIRES(mutex_);
  bool is_read(const std::shared_ptr<const Dataset>& dataset) const REQUIRES(mutex_);
  /// The rank of the seat's stream; null when that stream has ended.
  HostRank* rank_of(const Seat& seat) const REQUIRES(mutex_);
  void share_memory(HostRank& rank) const REQUIRES(mutex_);
  void drop_unlike(const AttachCall& call, const transforms::Pipeline& pipeline, const Dataset& dataset,
                   std::vector<std::shared_ptr<LocalStream>>& ended) REQUIRES(mutex_);
  std::uint32_t cores_now() const REQUIRES(mutex_);
  void follow_cores() REQUIRES(mutex_);
  void follow_memory() REQUIRES(mutex_);
  std::uint64_t readers() const REQUIRES(mutex_);
  void end_rank(HostJob& job, std::uint64_t rank, std::vector<std::shared_ptr<LocalStream>>& ended)
      REQUIRES(mutex_);

  Mutex sharing_;  // held while a reader looks for a shared stream: those that come together find each other
  mutable Mutex mutex_;
  JobLimits limits_ GUARDED_BY(mutex_);
  const std::shared_ptr<SharedBudget> budget_;        // of limits_.shared_bytes
  const std::shared_ptr<SharedBudget> cache_budget_;  // of limits_.cache.memory_bytes
  const std::shared_ptr<WriteBudget> write_budget_;   // of limits_.cache.write_bytes_per_day
  bool draining_ GUARDED_BY(mutex_) = false;
  std::uint32_t cores_ GUARDED_BY(mutex_);  // the cores allowed now, by affinity and quota
  HostShares shares_ GUARDED_BY(mutex_);
  std::int64_t shared_ns_ GUARDED_BY(mutex_) = 0;  // when shares_ was last updated
  MemoryShare memory_ GUARDED_BY(mutex_);
  OutageLog outages_ GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<HostJob>> jobs_ GUARDED_BY(mutex_);
  std::uint64_t last_job_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, OpenDataset> datasets_ GUARDED_BY(mutex_);  // keyed by source, views, order
};

}  // namespace carya::loader
