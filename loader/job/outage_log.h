#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "loader/program/log_level.h"
#include "remote/pool/pool.h"

namespace carya::loader {

/// Says in the log that a worker is away or back, and that a folder of kept samples is not used for now or is used again:
/// a line each time that this changes, for all streams together. Of one worker or folder there is a line in kQuietNs at
/// most, and of all kLinesMax at a look; what is left over then is said later, if it is still so. Threads: owner only.
class OutageLog {
 public:
  explicit OutageLog(Log log) : log_(std::move(log)) {}

  // A look, about once a second: begin(), what each stream says, end().
  void begin();
  /// `stream` is the same at each look, and no other stream's.
  void take_workers(std::uint64_t stream, const std::vector<remote::WorkerStats>& workers);
  /// StreamCache::report().
  void take_cache(std::uint64_t stream, const std::string& report);
  void end(std::int64_t now_ns);

  static constexpr std::int64_t kQuietNs = 10'000'000'000;
  static constexpr std::size_t kLinesMax = 20;
  /// What nobody has named for so long is forgotten.
  static constexpr std::int64_t kForgetNs = 60'000'000'000;

 private:
  /// A worker by its address, or a folder by its path.
  struct Subject {
    bool is_worker = true;
    bool named = false, works = false, fails = false;  // somebody says so, at this look
    std::uint64_t interrupted = 0;                     // how often it went and came back; not said yet
    std::string why{};                                 // it last failed
    bool said_away = false;
    std::int64_t said_ns = 0, named_ns = 0;
  };
  /// What one stream said of a worker or folder, at the last look.
  struct Earlier {
    bool named = false;
    std::uint64_t count = 0;  // of connections that ended, or of faults
    std::uint64_t done = 0;   // by a folder when the last fault was seen
    bool fails = false;       // a folder: nothing was done since; a worker: it was expelled
  };
  Earlier& earlier(std::uint64_t stream, const std::string& what);
  Subject& subject(bool is_worker, const std::string& name);

  const Log log_;
  std::map<std::string, Subject> subjects_;  // a path begins with '/', an address does not
  std::map<std::pair<std::uint64_t, std::string>, Earlier> earlier_;
  std::vector<std::string> expelled_;  // lines to be said
};

}  // namespace carya::loader
