#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// How a process ended by a signal of its own making: a wild access, a failed CHECK, an exception that nobody caught.
struct Crash {
  std::uint64_t work = 0;  ///< what the thread worked for (WorkFor); 0: for nobody in particular
  std::int64_t at_s = 0;   ///< Unix time
  int signal = 0;

  static constexpr std::int64_t kRecentS = 3600;
  /// Whether it was in the kRecentS before `now_s`. One that is still to come, by a clock that was set back, is not.
  bool is_recent(std::int64_t now_s) const { return at_s <= now_s && now_s - at_s <= kRecentS; }
};

/// While it lives, a crash of this thread is blamed on `work`. Costs a store each way.
class WorkFor {
 public:
  explicit WorkFor(std::uint64_t work);
  ~WorkFor();
  WorkFor(const WorkFor&) = delete;
  WorkFor& operator=(const WorkFor&) = delete;
  /// What this thread works for now.
  static std::uint64_t current();

 private:
  const std::uint64_t before_;
};

/// What a process tells its successor of its own crash, in a small file: 128 entries of 32 bytes, the oldest of which are
/// written over. Entries of another version of the program do not count: it may be mended. The file is checked entry by
/// entry; what is no entry is none. Threads: recent() and all() by any, everything else by one, before others are started.
class CrashNotes {
 public:
  static constexpr std::size_t kBytes = 4096;

  /// Read the notes of earlier processes; the file need not be there, and the first crash makes it. `version` is the
  /// program's. Errors: kInvalidArgument when it is no file of this user, or the path is too long; those of the file.
  static Result<std::shared_ptr<CrashNotes>> open(const std::string& path, const std::string& version);
  /// Likewise, of a file that is open: its size is given.
  static Result<std::shared_ptr<CrashNotes>> read(UniqueFd file, const std::string& version);

  /// From now on a crash of this process is noted, and ends it as before. Signals that somebody handles already stay as
  /// they are. Once per process.
  void catch_crashes();
  /// The latest recent crash that is blamed on this work.
  std::optional<Crash> recent(std::uint64_t work, std::int64_t now_s) const;
  /// All that are known, the latest first.
  const std::vector<Crash>& all() const { return crashes_; }
  /// Where they are noted; "" if that has no name.
  const std::string& path() const { return path_; }

 private:
  CrashNotes() = default;
  UniqueFd file_;  // empty where it has a path
  std::string path_;
  std::uint32_t version_ = 0;
  std::uint32_t next_ = 0;  // the number of the next crash
  std::vector<Crash> crashes_;
};

/// "signal 11 (Segmentation fault)".
std::string signal_name(int signal);

}  // namespace carya::loader
