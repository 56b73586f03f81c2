#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "loader/job/job_options.h"
#include "loader/job/producer.h"
#include "loader/stream/stream_shape.h"
#include "shm/slot_ring.h"

namespace carya::loader {

/// Entries that a job's quarantine keeps: a dataset of nothing but broken records must not fill the memory.
inline constexpr std::size_t kQuarantineMax = 10'000;

/// One delivered batch: a lease and what its meta words say. Tensors lie at the job's layout.
struct Batch {
  shm::Lease lease{};
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;      ///< inside the epoch
  std::uint64_t position = 0;  ///< first position of the epoch that is not delivered yet
  std::uint64_t rows = 0;
  bool last = false;  ///< of its epoch
};

struct JobStats : ProducerStats {
  TrainerFigures trainer;
  std::uint32_t held = 0;                 ///< slots the reader holds
  std::uint64_t quarantine_left_out = 0;  ///< entries past kQuarantineMax
};

/// A stream and this process's end of its slots.
struct Attachment {
  std::shared_ptr<Producer> producer;
  std::unique_ptr<shm::RingReader> reader;
  std::uint64_t session = 1;  ///< of the slots to be read
  StreamShape shape;
  std::uint64_t seed = 0;
  std::uint32_t threads = 1;
  std::uint32_t slots = 0;
  Hash128 dataset{};                ///< fingerprint
  std::uint64_t skipped_count = 0;  ///< what a daemon's listing left out (io::ListingReport)
  std::vector<std::string> skipped_examples{};
  std::string io_engine{};  ///< what reads, where this process does; else ""
  /// Where it is made: "embedded", or the daemon's socket.
  std::string place = "embedded";
  bool remote = false;  ///< by another process, which may end
};

/// How a job gets its stream, at its start and again when the stream's maker was lost. Called by the thread
/// that waits for the next batch; makes one attempt. Errors: kTimeout to be asked again soon; others end the
/// job.
using Attach = std::function<Result<Attachment>(std::uint64_t epoch, std::uint64_t position,
                                                transforms::OnError on_error)>;

/// Streams made in this process.
Attach attach_embedded(std::shared_ptr<const transforms::Pipeline> pipeline,
                       std::shared_ptr<const Dataset> dataset, const JobOptions& options);

/// One pipeline being delivered to one reader: this process's end of a stream.
///
/// Threads: next(), seek() and set_on_error() by one thread at a time; everything else thread-safe. In a
/// forked child every call is kForked, or empty where it cannot fail, and destruction does nothing.
class Job {
 public:
  /// The stream is made in this process. Errors: kInvalidArgument (shape of the stream, no batch), kExhausted
  /// (slots), those of the plan and the engine.
  static Result<std::shared_ptr<Job>> create(std::shared_ptr<const transforms::Pipeline> pipeline,
                                             std::shared_ptr<const Dataset> dataset,
                                             const JobOptions& options);
  /// The stream is what `attach` gives. Errors: those of `attach`.
  static Result<std::shared_ptr<Job>> create(Attach attach, const JobOptions& options);
  ~Job();

  /// The next batch of the stream; waits at most timeout_ms. Errors: kTimeout, kClosed, kForked; kCorrupt and
  /// kIo come at their place in the stream, again at each call until seek() or set_on_error(), with failure()
  /// set; those of a new attachment when the stream's maker was lost.
  Result<Batch> next(int timeout_ms);
  /// Throw away what was prefetched and go on at this place; nothing happens when the stream stands there
  /// already.
  Status seek(std::uint64_t epoch, std::uint64_t position);
  /// A new policy, from the next batch on: what was prefetched under the old one is thrown away, and a stream
  /// that had failed goes on at the failed step. Nothing happens when it is the policy already.
  Status set_on_error(transforms::OnError policy);
  /// Stop producing; what is leased stays readable. Waits for at most the chunks being computed.
  void close();

  // The same for every attachment of a job.
  const StreamShape& shape() const { return shape_; }
  std::uint64_t seed() const { return seed_; }
  Hash128 dataset() const { return dataset_; }
  const shm::SlotLayout& layout() const { return *layout_; }
  /// Where the batches are made: "embedded", or the daemon's socket.
  std::string place() const;
  /// What reads, where this process makes the batches; else "".
  std::string io_engine() const;
  /// How often the stream's maker was lost and another found.
  std::uint64_t reattached() const { return reattached_; }
  /// What a daemon's listing left out: how many files, and some of their names.
  std::pair<std::uint64_t, std::vector<std::string>> skipped() const;
  std::optional<Failure> failure() const;
  std::uint32_t threads() const { return attachment_figure(&Attachment::threads); }
  std::uint32_t slots() const { return attachment_figure(&Attachment::slots); }
  std::uint32_t held() const;
  /// Broken records of delivered batches: the first kQuarantineMax; JobStats counts the others.
  std::vector<Failure> quarantine() const;
  JobStats stats() const;
  /// The part of stats() that asks nobody.
  TrainerFigures trainer() const;

 private:
  Job() = default;
  bool forked() const { return getpid() != pid_; }
  Status check_usable() const;
  Result<shm::Lease> wait(std::int64_t end_ns);
  Status attach();
  std::shared_ptr<Producer> producer() const;
  std::uint32_t attachment_figure(std::uint32_t Attachment::* figure) const;
  Result<Batch> deliver(shm::Lease lease);
  void keep(Failure failure);
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

  // The reader's place: what next() would deliver. Owned by the thread that calls next() and seek().
  std::uint64_t epoch_ = 0;
  std::uint64_t position_ = 0;
  bool at_epoch_end_ = false;  // the last batch ended its epoch
  bool prefetch_epochs_ = true;
  transforms::OnError on_error_ = transforms::OnError::kRaise;
  bool trains_ = true;  // JobOptions::trains

  mutable std::mutex facts_;  // guards what follows; its owner thread may read the attachment without it
  Attachment at_;
  bool lost_ = false;  // the maker of the stream is gone: attach again
  std::optional<Failure> failure_;
  std::vector<Failure> quarantine_;
  std::uint64_t quarantine_left_out_ = 0;
  TrainerMeter trainer_;
};

}  // namespace carya::loader
