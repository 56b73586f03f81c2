#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "io/read/read_engine.h"
#include "loader/read/read_op.h"

namespace carya::loader {

/// Containers that all jobs together have open. More than the read engine's depth, so that there is always
/// one without a read in flight, and far fewer than the usual limit of 1,024 descriptors, which is the
/// trainer's too.
inline constexpr std::size_t kOpenContainersMax = 128;

/// So often at most a container that is open is asked whether it is still what was listed.
inline constexpr std::int64_t kLookAtContainerNs = 1'000'000'000;

/// A root or container of one job, in the read engine.
struct OpenSource {
  int handle = -1;  ///< -1: closed
  std::uint32_t in_flight = 0;
  std::uint64_t used = 0;   ///< when it was last wanted, in calls of enter()
  io::SourceStamp first{};  ///< of a container when this job first opened it
  bool opened_before = false;
  std::int64_t looked_ns = 0;  ///< when it was last found unchanged
};

/// What the read engine has open for the jobs: each job its own roots and containers, so that what a job
/// finds under a path is what is there when it begins, whatever older jobs still read. Containers are closed,
/// the least recently used first, when there are too many; one that is opened again must still be the same
/// file, and one that stays open is looked at once a second. What is read less than that after a change may
/// be the new bytes: computing looks again at the file of each record that it finds broken.
///
/// Threads: the reading thread's own.
class OpenSources {
 public:
  explicit OpenSources(io::ReadEngine& engine) : engine_(engine) {}

  /// Open what the read is from, where it is not open, and fill in the request. It stays open until leave().
  /// Errors: those of the read engine; kIo (the container changed).
  Status enter(ReadOp& op);
  /// The read has ended, or was never begun.
  void leave(ReadOp& op);
  /// The job begins no reads any more: close what is its own, when its last read has ended.
  void forget(std::uint64_t job);

 private:
  struct Place {
    OpenSource root;
    std::vector<OpenSource> containers;  // as the manifest's; its size never changes
    bool forgotten = false;
  };
  Result<int> open_root(Place& place, const io::Manifest& manifest);
  Status open_container(OpenSource& source, int root, const io::Manifest& manifest, std::uint32_t container);
  Status look_at(OpenSource& source);
  bool close_one_container();
  void close_container(OpenSource& source);
  bool close_place(Place& place);

  io::ReadEngine& engine_;
  std::map<std::pair<std::uint64_t, const io::Manifest*>, Place> places_;  // by job and manifest
  std::vector<OpenSource*> containers_;                                    // that are open
  std::uint64_t tick_ = 0;
};

}  // namespace carya::loader
