#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"

namespace carya::loader {

/// Counts which samples a folder of a tier keeps at some places, whoever wrote them: by the identities of some records,
/// which are looked for in the tables of all files there. Nothing is made in the folder, and no sample is read.
///
/// It works in a thread of its own, which is left behind where storage never answers. Threads: thread-safe.
class FolderCensus {
 public:
  /// Begin. Places and identities as io::SegmentStore has them. May throw std::bad_alloc.
  static std::shared_ptr<FolderCensus> begin(std::string folder, std::vector<Hash128> places,
                                             std::vector<Hash128> identities);

  /// The share of the identities that the files of a place have, 0 where there is no such place; none: it is not over.
  std::optional<double> share(Hash128 place) const;
  /// Wait for its end, for at most so long.
  void wait(std::int64_t most_ns) const;

 private:
  struct State;
  explicit FolderCensus(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State> state_;
};

}  // namespace carya::loader
