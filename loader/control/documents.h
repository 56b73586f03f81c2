#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "loader/job/job_options.h"
#include "loader/job/producer.h"
#include "loader/stream/stream_shape.h"

namespace carya::loader {

// What the bodies of control messages say (PROTOCOL.md). encode() makes CBOR; decode() checks: every field
// that is known must have its type and range, one that is missing keeps its default, one that is unknown is
// ignored (it is of a later minor version).

struct Hello {
  std::string client;  ///< "carya 0.1.0"
};

struct Welcome {
  std::string daemon;  ///< "caryad 0.1.0"
  std::uint64_t pid = 0;
  std::uint64_t instance = 0;  ///< another number after each start
  bool draining = false;       ///< takes no new jobs
};

/// An array of the trainer's memory: its rows come as a sealed memory file with the message.
struct ArrayFacts {
  std::string field;
  std::uint64_t row_bytes = 0;
  std::uint64_t rows = 0;
};

/// Descriptors with it: the pipeline's document, then one per array, all sealed memory files.
struct AttachRequest {
  std::string job;  ///< the name that its ranks share
  std::uint32_t replica = 0;
  std::uint32_t replicas = 1;
  JobOptions options;
  std::string cache_dir;
  std::vector<ArrayFacts> arrays;
};

/// The slots' descriptors follow it in messages of their own (shm/FORMAT.md).
struct Attached {
  std::string job;
  Hash128 dataset;
  StreamShape shape;
  std::uint64_t seed = 0;
  std::uint32_t threads = 0;
  std::uint32_t slots = 0;
  std::uint64_t session = 0;
  std::vector<std::string> class_names;       ///< empty when they are too long for a message
  std::uint64_t skipped_count = 0;            ///< what the listing left out (io::ListingReport)
  std::vector<std::string> skipped_examples;  ///< some of their names
  std::vector<std::size_t> order;             ///< JobOptions::order, which an older daemon does not know
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
  double demand_per_s = 0;  ///< TrainerFigures::demand_per_s
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
struct Progress {
  std::uint64_t records = 0;
};

/// An answer that is too long for a message: its type, and the bytes of the memory file that is its body.
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
  double stall_s = 0;  ///< that it has slept for batches, as it says itself; at most attached_s
};
struct RankStatus {
  std::uint64_t rank = 0;
  std::uint64_t epoch = 0;     ///< of the last published batch
  std::uint64_t position = 0;  ///< after it
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  std::uint64_t bytes_read = 0;
  double samples_per_s = 0;  ///< over the last seconds
  std::uint32_t slots = 0, free = 0, filling = 0, ready = 0, held = 0;
  std::uint64_t slot_bytes = 0;  ///< of all slots
  std::uint64_t quarantined = 0;
  std::uint32_t threads = 0;       ///< that it may use, beside other streams
  std::uint32_t threads_used = 0;  ///< that its trainer's rate needs of those
  double lingers_s = 0;            ///< seconds left until it is forgotten, when nobody reads it
  std::vector<ReaderStatus> readers;
  std::string placement;  ///< Overflow::report(); "": no workers
  // What follows stays in the daemon, for its metrics: a message has no room for it.
  std::uint64_t reads = 0;
  double read_latency_s = 0;  ///< of all reads
  std::array<std::uint64_t, kReadLatencyBoundsS.size()> reads_within{};
  std::vector<transforms::OpProfile> ops;
};
struct JobStatus {
  std::string job;
  std::string source;
  std::uint64_t records = 0;
  std::uint64_t world_size = 1;
  std::string state;  ///< "opening", "running", "lingering"
  std::vector<RankStatus> ranks;
};
struct DaemonStatus {
  std::string daemon;
  std::uint64_t pid = 0;
  double up_s = 0;
  std::string state;  ///< "ready", "draining"
  std::string socket;
  std::string mount_namespace;  ///< as readlink(2) of /proc/self/ns/mnt says; "": unknown
  std::string io_engine;
  std::uint32_t threads = 0;
  double cpu_s = 0;
  std::uint64_t memory_bytes = 0;  ///< resident
  std::uint64_t shared_bytes = 0;  ///< slots and arrays of all jobs, also of those that are being made
  std::uint64_t shared_bytes_limit = 0;
  std::uint64_t descriptors = 0, descriptors_limit = 0;
  std::uint64_t connections = 0;
  std::uint64_t attached = 0, detached = 0,
                killed = 0;  ///< readers so far; killed: that died or were thrown out
  std::vector<JobStatus> jobs;
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
/// The same document as JSON text, for people and scripts.
template <typename Document>
std::string to_json(const Document& document);

/// Every number that a client's document can have, as number_ranges() names it.
std::vector<std::string> client_number_fields();

}  // namespace carya::loader
