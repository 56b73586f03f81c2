#pragma once

#include <memory>
#include <string>
#include <vector>

#include "loader/program/log_level.h"

namespace carya::loader {

/// Whether the descriptor is the journal's stream that JOURNAL_STREAM names ("device:inode"). The variable alone says
/// little: every child of a service inherits it, wherever its own stderr goes. Source: systemd.exec(5).
bool is_journal(const std::string& journal_stream, int fd);

/// The daemon's log: one line per event on stderr. A line has the priority that journald reads ("<6>...") if stderr is
/// the journal, and the time if it is not. The last thousand lines are kept for `carya logs`. Threads: thread-safe.
class EventLog {
 public:
  EventLog();
  ~EventLog();
  /// "debug", "info", "warning" or "error".
  void set_level(const std::string& level);
  void write(LogLevel level, const std::string& line);
  std::vector<std::string> last_lines(std::uint64_t count) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carya::loader
