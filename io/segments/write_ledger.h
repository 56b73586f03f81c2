#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::io {

/// Bytes by age in hours: [0] those of the hour that runs.
using HourlyBytes = std::array<std::uint64_t, 25>;
/// All of them, or UINT64_MAX.
std::uint64_t sum_of(const HourlyBytes& bytes);
/// The same so many hours later.
void age(HourlyBytes& bytes, std::uint64_t hours);

/// The bytes that a user's processes wrote to the files of a folder, by hours of the wall clock, in a file of it
/// (FORMAT.md). It outlives them, and all of them add to it under its lock.
///
/// A file that is no ledger counts as an empty one. A clock that was set back leaves bytes the age that they had; one that
/// is set forward makes them older.
///
/// Threads: owner only; processes: any number. It waits for the storage.
class WriteLedger {
 public:
  /// Errors: those of open(); kInvalidArgument: something else has its name.
  static Result<WriteLedger> open(const std::string& folder);

  /// Count `bytes` as written, unless all would be more than `limit` then: kExhausted. `now_s`: of the wall clock. Errors:
  /// kTimeout: somebody holds the lock; those of reading and writing. None has counted them.
  Status add(std::uint64_t bytes, std::uint64_t limit, std::int64_t now_s);
  /// What was counted and not written.
  Status give_back(std::uint64_t bytes, std::int64_t now_s);
  Result<HourlyBytes> read(std::int64_t now_s);

 private:
  WriteLedger(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  template <typename Change>
  Result<HourlyBytes> change(std::int64_t now_s, Change change);

  std::string path_;
  UniqueFd fd_;
};

}  // namespace carya::io
