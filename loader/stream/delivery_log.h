#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "loader/stream/chunk.h"

namespace carya::loader {

/// Records which published batches had rows of which worker. They cannot be taken back when a worker turns out to be
/// wrong. The log keeps the last kEntriesMax pairs of a worker and an epoch. Threads: owner only.
class DeliveryLog {
 public:
  static constexpr std::size_t kEntriesMax = 64;

  /// Note the workers of a step that is published.
  void note(const Step& step);
  /// The batches with rows of `worker`, in words; "" if there are none.
  std::string of(std::uint64_t worker) const;

 private:
  struct Entry {
    std::uint64_t worker = 0, epoch = 0, first = 0, last = 0, batches = 0;
  };
  std::array<Entry, kEntriesMax> entries_{};  // the oldest is written over
  std::size_t next_ = 0;
};

}  // namespace carya::loader
