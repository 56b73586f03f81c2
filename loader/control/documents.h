#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "io/http/store_access.h"
#include "loader/engine/guests.h"
#include "loader/job/job_options.h"
#include "loader/job/stream.h"
#include "loader/stream/stream_shape.h"

namespace carya::loader {

// The bodies of control messages (PROTOCOL.md). encode() makes CBOR. decode() checks it: a known field must have its
// type and range, a missing field keeps its default, and an unknown field (of a later minor version) is ignored.

struct Hello {
  std::string client;  ///< "carya 0.1.0"
};

struct Welcome {
  std::string daemon;  ///< "caryad 0.1.0"
  std::uint64_t pid = 0;
  std::uint64_t instance = 0;  ///< a number that differs after each start
  bool draining = false;       ///< the daemon takes no new jobs
};

/// An array of the trainer's memory. Its rows come with the message, in a sealed memory file.
struct ArrayInfo {
  std::string field;
  std::uint64_t row_bytes = 0;
  std::uint64_t rows = 0;
};

/// A request to attach. Its descriptors are sealed memory files: the pipeline's document, then one per array.
struct AttachRequest {
  std::string job;  ///< the name that its ranks share
  /// Jobs with this name whose batches are the same read the same slots, as long as they keep pace; "": none do.
  std::string share;
  std::uint32_t share_jobs = 1;  ///< the first batch waits for so many of them
  std::uint32_t replica = 0;
  std::uint32_t replicas = 1;
  JobOptions options;
  std::string cache_dir;
  std::vector<ArrayInfo> arrays;
};

/// The answer to AttachRequest. The slots' descriptors follow in messages of their own (shm/FORMAT.md).
struct Attached {
  std::string job;
  Hash128 dataset;
  StreamShape shape;
  std::uint64_t seed = 0;
  std::uint32_t threads = 0;
  std::uint32_t slots = 0;
  std::uint64_t session = 0;
  std::vector<std::string> class_names;       ///< empty if they are too long for a message
  std::uint64_t skipped_count = 0;            ///< files that the listing left out (io::ListingReport)
  std::vector<std::string> skipped_examples;  ///< names of some of those files
  std::vector<std::size_t> order;             ///< JobOptions::order; an older daemon does not send it
  std::uint64_t traced_as = 0;                ///< the stream in traces; 0: an older daemon does not send it
};

/// What a client lends for the stores of its job, before it attaches and again when it is asked. It is in no log, trace or
/// status; the message's bytes are overwritten after it was read.
struct LendRequest {
  io::StoreTerms terms;
  std::vector<io::LentGrant> grants;
};
/// The daemon asks for others.
struct WantGrants {
  bool refused = false;  ///< a store refused what was lent
};

struct SeekRequest {
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;
};
struct SessionIs {
  std::uint64_t session = 0;
};
struct PolicyRequest {
  transforms::OnError on_error{};
};
struct PolicySet {
  bool changed = false;
};
struct TakeFoundRequest {
  std::uint64_t sequence = 0;
};
struct DetachRequest {
  double demand_per_s = 0;  ///< TrainerStats::demand_per_s
};
struct StopJobRequest {
  std::string job;
};
struct LogsRequest {
  std::uint64_t lines = 100;
};
struct LogsAre {
  std::vector<std::string> lines;
};
/// A request to record what the daemon's streams do, or to stop and send it.
struct TraceRequest {
  std::uint64_t session = 0;  ///< of the trace to stop; 0: start one, which drops another one that runs
  std::uint64_t thread_events = 1 << 14;  ///< TraceOptions::thread_events
  std::string job;                        ///< to stop: only this job's streams; "": all
};
struct TraceIs {
  std::uint64_t session = 0;  ///< of the trace that was started or stopped
  std::string bytes;          ///< what was recorded (to_perfetto())
};
/// A request for all that is known of one job's streams.
struct WatchRequest {
  std::string job;
};
struct RankWatched {
  std::uint64_t rank = 0;
  std::string stats;                ///< encode() of StreamStats, which would lie too deep in this document
  std::string explanation;          ///< explain_order()'s report, JSON; "": none could be made
  std::vector<RecordError> broken;  ///< the last records that a reader was told of
};
struct WatchIs {
  std::vector<RankWatched> ranks;
};
/// What a job says whose work other processes of this machine do, and what it may do until the next time.
using TurnRequest = GuestReport;
using TurnIs = GuestTurn;
/// The daemon's page for Prometheus.
struct MetricsAre {
  std::string text;
};
struct Progress {
  std::uint64_t records = 0;
};

/// An answer that is too long for a message: its type, and the size of the memory file that contains its body.
struct LongIs {
  std::uint32_t type = 0;
  std::uint64_t bytes = 0;
};

/// One reader of a rank, as `carya status` shows it.
struct ReaderStatus {
  std::uint64_t pid = 0;
  std::uint32_t replica = 0;
  std::uint32_t held = 0;
  double attached_s = 0;
  double stall_s = 0;  ///< seconds that the reader says it slept for batches; at most attached_s
};
struct RankStatus {
  std::uint64_t rank = 0;
  std::uint64_t epoch = 0;     ///< the epoch of the last published batch
  std::uint64_t position = 0;  ///< the position behind that batch
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  std::uint64_t bytes_read = 0;
  double samples_per_s = 0;  ///< the rate over the last seconds
  std::uint32_t slots = 0, free = 0, filling = 0, ready = 0, held = 0;
  std::uint64_t slot_bytes = 0;  ///< bytes of all slots together
  std::uint64_t quarantined = 0;
  std::uint32_t threads = 0;       ///< threads that the stream may use beside other streams
  std::uint32_t threads_used = 0;  ///< threads that the stream needs for its trainer's rate
  double lingers_s = 0;            ///< seconds until the rank is forgotten, if nobody reads it
  std::vector<ReaderStatus> readers;
  std::vector<ReaderStatus> closed;  ///< readers that left, in processes that still hold slots
  double compute_s = 0;              ///< time of the daemon's threads for its samples, in s
  std::string placement;             ///< PlacementReport as JSON; "": there are no workers
  // The fields below stay in the daemon, for its metrics: a message has no room for them.
  std::uint64_t reads = 0;
  double read_latency_s = 0;  ///< the sum over all reads
  std::array<std::uint64_t, kReadLatencyBoundsS.size()> reads_within{};
  std::vector<transforms::OpProfile> ops;
  std::vector<double> op_cpu_s;  ///< CPU time of each of `ops`; it never falls
  std::string cache;             ///< what StreamStats has of it; "": no samples are kept
  std::vector<StoreFigures> stores;
};
struct JobStatus {
  std::string job;
  std::string source;
  std::uint64_t records = 0;
  std::uint64_t world_size = 1;
  double weight = 1;
  std::string share;  ///< the name under which others may read its slots; "": none may
  std::string state;  ///< "opening", "running", "lingering"
  std::vector<RankStatus> ranks;
};
struct DaemonStatus {
  std::string daemon;
  std::uint64_t pid = 0;
  double up_s = 0;
  std::string state;  ///< "ready", "draining"
  std::string socket;
  std::string mount_namespace;  ///< readlink(2) of /proc/self/ns/mnt; "": unknown
  std::string io_engine;
  std::uint32_t threads = 0;
  double cpu_s = 0;
  std::uint64_t memory_bytes = 0;  ///< resident memory
  std::uint64_t shared_bytes = 0;  ///< slots and arrays of all jobs, with those that are being made
  std::uint64_t shared_bytes_limit = 0;
  std::uint64_t cache_bytes = 0;          ///< memory that samples for later epochs may take, of all jobs
  std::uint64_t cache_bytes_limit = 0;    ///< the most of it
  std::uint64_t cache_written_bytes = 0;  ///< of them to files within the last day
  std::optional<std::uint64_t> cache_write_budget{};  ///< the most of these; none: no limit
  std::uint64_t descriptors = 0, descriptors_limit = 0;
  std::uint64_t connections = 0;
  std::uint64_t attached = 0, detached = 0,
                killed = 0;  ///< readers so far; `killed` counts those that died or were thrown out
  std::vector<JobStatus> jobs;
  std::vector<GuestStatus> guests;  ///< jobs of Python functions that take turns with these
  double guests_cpu_s = 0;          ///< CPU time of all such jobs so far
};

struct ErrorIs {
  Error error{Code::kIo, {}, 0};
};

template <typename Document>
std::string encode(const Document& document);
/// Errors: kCorrupt, with the field's name; kInvalidArgument for a client's number out of its range
/// (loader/wire/number_ranges.h).
template <typename Document>
Result<Document> decode(const std::string& body);
/// The document as JSON text, for people and scripts.
template <typename Document>
std::string to_json(const Document& document);

/// The names, as in number_ranges(), of all numbers that a client's documents can have.
std::vector<std::string> client_number_fields();

}  // namespace carya::loader
