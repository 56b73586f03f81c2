#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "loader/job/job_options.h"
#include "loader/job/local_stream.h"
#include "loader/job/stream.h"
#include "loader/stream/stream_shape.h"
#include "shm/slot_ring.h"

namespace carya::loader {

/// Entries that a job's quarantine keeps: a dataset of nothing but broken records must not fill the memory.
inline constexpr std::size_t kQuarantineMax = 10'000;

/// One delivered batch: a lease on a slot, and what the slot's meta words say. The job's layout says where its
/// tensors lie.
struct Batch {
  shm::Lease lease{};
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;      ///< the step's index inside the epoch
  std::uint64_t position = 0;  ///< the first position of the epoch that is not delivered yet
  std::uint64_t rows = 0;
  bool last = false;          ///< the batch is the last one of its epoch
  std::uint64_t stream = 0;   ///< its stream in a trace
  std::int64_t taken_ns = 0;  ///< when it was taken; 0: it was not traced
};

struct JobStats : StreamStats {
  TrainerStats trainer;
  std::uint32_t held = 0;                 ///< slots the reader holds
  std::uint64_t quarantine_left_out = 0;  ///< entries beyond kQuarantineMax, which were not kept
};

/// A stream and this process's end of its slots.
struct Attachment {
  std::shared_ptr<Stream> producer;
  std::unique_ptr<shm::RingReader> reader;
  std::uint64_t session = 1;  ///< the session of the slots to be read; others are given back unread
  StreamShape shape;
  std::uint64_t seed = 0;
  std::uint32_t threads = 1;
  std::uint32_t slots = 0;
  Hash128 dataset{};                ///< the dataset's fingerprint
  std::uint64_t traced_as = 0;      ///< the stream in a trace (trace_stream()); 0: its maker does not say
  std::uint64_t skipped_count = 0;  ///< files that a daemon's listing left out (io::ListingReport)
  std::vector<std::string> skipped_examples{};
  std::string io_engine{};  ///< the engine that reads, if this process does; else ""
  /// Where the stream is made: "embedded", or the daemon's socket.
  std::string place = "embedded";
  bool remote = false;  ///< another process makes the stream, and may end
  /// The memory file of each slot, which `producer` owns, where this process makes the stream; else none.
  std::vector<int> slot_files{};
};

/// How a job gets its stream, at its start and again when the process that makes the stream was lost. The thread
/// that waits for the next batch calls it. A call makes one attempt. Errors: after kTimeout the job calls again
/// soon; any other error ends the job.
using Attach = std::function<Result<Attachment>(std::uint64_t epoch, std::uint64_t position,
                                                transforms::OnError on_error)>;

/// Attach to streams that this process makes, of the parts that are given.
Attach attach_embedded(std::shared_ptr<const transforms::Pipeline> pipeline,
                       std::shared_ptr<const Dataset> dataset, const JobOptions& options,
                       GivenParts parts = {});

/// The delivery of one pipeline to one reader: this process's end of a stream.
///
/// Threads: next(), seek() and set_on_error() by one thread at a time; everything else thread-safe. In a
/// forked child every call fails with kForked, or returns an empty value if it cannot fail; destruction does nothing.
class Job {
 public:
  /// Make the stream in this process. Errors: kInvalidArgument (shape of the stream, no batch), kExhausted
  /// (slots), those of the plan and the engine.
  static Result<std::shared_ptr<Job>> create(std::shared_ptr<const transforms::Pipeline> pipeline,
                                             std::shared_ptr<const Dataset> dataset,
                                             const JobOptions& options);
  /// Read the stream that `attach` returns. Errors: those of `attach`.
  static Result<std::shared_ptr<Job>> create(Attach attach, const JobOptions& options);
  ~Job();

  /// Returns the next batch of the stream; waits at most timeout_ms. Errors: kTimeout, kClosed, kForked. kCorrupt and
  /// kIo come at their place in the stream and set failure(); each call repeats them until seek() or set_on_error().
  /// When the stream's maker was lost, the errors of a new attachment.
  Result<Batch> next(int timeout_ms);
  /// Drop what was prefetched and go on at this place. Does nothing if the stream is there already.
  Status seek(std::uint64_t epoch, std::uint64_t position);
  /// Set the policy from the next batch on. Batches that were prefetched under the old policy are dropped, and a
  /// stream that had failed goes on at the failed step. Does nothing if the policy is the same.
  Status set_on_error(transforms::OnError policy);
  /// Stop producing. Leased batches stay readable. Waits for the chunks that are being computed, for nothing else.
  void close();

  // These are the same for every attachment of a job.
  const StreamShape& shape() const { return shape_; }
  std::uint64_t seed() const { return seed_; }
  Hash128 dataset() const { return dataset_; }
  const shm::SlotLayout& layout() const { return *layout_; }
  /// Where the batches are made: "embedded", or the daemon's socket.
  std::string place() const;
  /// The engine that reads, if this process makes the batches; else "".
  std::string io_engine() const;
  /// How often the stream's maker was lost and another found.
  std::uint64_t reattached() const { return reattached_; }
  /// The number of files that a daemon's listing left out, and some of their names.
  std::pair<std::uint64_t, std::vector<std::string>> skipped() const;
  std::optional<RecordError> failure() const;
  std::uint32_t threads() const { return attachment_figure(&Attachment::threads); }
  std::uint32_t slots() const { return attachment_figure(&Attachment::slots); }
  std::uint32_t held() const;
  /// The memory file of each slot, for processes that read leased batches beside this one. The job owns them. Empty where
  /// another process makes the stream.
  std::vector<int> slot_files() const;
  /// The broken records of delivered batches: the first kQuarantineMax of them; JobStats counts the others.
  std::vector<RecordError> quarantine() const;
  JobStats stats() const;
  /// The part of stats() that asks nobody.
  TrainerStats trainer() const;

 private:
  Job() = default;
  bool forked() const { return getpid() != pid_; }
  Status check_usable() const;
  Result<shm::Lease> wait(std::int64_t end_ns);
  Status attach();
  std::shared_ptr<Stream> producer() const;
  std::uint32_t attachment_figure(std::uint32_t Attachment::* figure) const;
  void trace_next(std::int64_t begin_ns, Batch& batch);
  Result<Batch> deliver(shm::Lease lease);
  void keep(RecordError failure);
  void note(const Result<Batch>& batch);
  Status restart(std::uint64_t epoch, std::uint64_t position);

  const pid_t pid_ = getpid();
  Attach attach_;
  StreamShape shape_;
  std::uint64_t seed_ = 0;
  Hash128 dataset_;
  std::optional<shm::SlotLayout> layout_;
  std::atomic<bool> closed_{false};
  std::atomic<std::uint64_t> reattached_{0};

  // The place of the batch that next() delivers next. The thread that calls next() and seek() owns it.
  std::uint64_t epoch_ = 0;
  std::uint64_t position_ = 0;
  bool at_epoch_end_ = false;  // the last batch ended its epoch
  bool prefetch_epochs_ = true;
  transforms::OnError on_error_ = transforms::OnError::kRaise;
  bool trains_ = true;  // JobOptions::trains

  mutable Mutex facts_;  // guards what follows; its owner thread may read the attachment without it
  Attachment at_;
  bool lost_ = false;  // the maker of the stream is gone, so that next() attaches again
  std::optional<RecordError> failure_;
  std::vector<RecordError> quarantine_;
  std::uint64_t quarantine_left_out_ = 0;
  TrainerMeter trainer_;

  // The last batch that was taken while a trace ran, for the thread of next().
  std::uint64_t traced_sequence_ = 0;
  std::int64_t traced_ns_ = 0;  // 0: none
  std::int64_t asked_ns_ = 0;   // since when the trainer waits for the next batch; 0: it does not
};

}  // namespace carya::loader
