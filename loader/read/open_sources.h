#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "io/read/read_engine.h"
#include "loader/read/read_op.h"

namespace carya::loader {

/// The largest number of containers that all jobs together keep open: a quarter of the process's descriptors, since the
/// trainer needs some too, and at most 4,096. A job whose first container finds no place may open one more.
std::size_t open_containers_max();

/// An open container is compared with its first stamp at most this often.
inline constexpr std::int64_t kLookAtContainerNs = 1'000'000'000;

/// A root or container that the read engine has open for one job.
struct OpenSource {
  int handle = -1;  ///< -1: closed
  std::uint32_t in_flight = 0;
  std::uint64_t used = 0;   ///< the call of enter(), counted from 1, that last used it
  io::SourceStamp first{};  ///< the container's stamp when this job first opened it
  bool opened_before = false;
  std::int64_t looked_ns = 0;  ///< when the container was last found unchanged
};

/// The roots and containers that the read engine has open. Each job has its own, so that a job sees what is under a
/// path when the job begins, whatever older jobs still read. When there are too many containers, the least recently
/// used is closed. A container that is opened again must be the same file, and one that stays open is checked once a
/// second. A read less than a second after a change may return new bytes; for that, the compute threads check the file
/// of each record that they find broken.
///
/// Threads: the reading thread only.
class OpenSources {
 public:
  explicit OpenSources(io::ReadEngine& engine) : engine_(engine) {}

  /// Reserve a place for the source of `op`, until leave(). Returns false if no container may be added now, for all
  /// jobs or for this one; a later leave() makes room. Returns true if memory is short; enter() then fails.
  bool reserve(ReadOp& op);
  /// Open the source of `op` if it is closed, and fill in the request's handle. The source stays open until leave().
  /// Errors: those of the read engine; kIo (the container changed); kExhausted (memory).
  Status enter(ReadOp& op);
  /// The read has ended, or will not begin. Gives back its place.
  void leave(ReadOp& op);
  /// The job begins no more reads. Closes its sources when its last read has ended.
  void forget(std::uint64_t job);

 private:
  struct Place {
    OpenSource root;
    std::vector<OpenSource> containers;  // in the manifest's order; never resized: reads point to them
    std::size_t busy = 0;                // containers with reads in flight
    bool forgotten = false;
  };
  Result<int> open_root(Place& place, const ReadOp& op);
  Status open_container(OpenSource& source, int root, const io::Manifest& manifest, std::uint32_t container);
  Status look_at(OpenSource& source);
  bool close_one_container();
  void close_container(OpenSource& source);
  bool close_place(Place& place);

  io::ReadEngine& engine_;
  std::map<std::pair<std::uint64_t, const io::Manifest*>, Place> places_;  // by job and manifest
  std::vector<OpenSource*> containers_;                                    // all that are open
  std::size_t busy_ = 0;                                                   // containers with reads in flight
  std::uint64_t tick_ = 0;
  const std::size_t containers_max_ = open_containers_max();
};

}  // namespace carya::loader
