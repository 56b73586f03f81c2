#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "remote/fleet/fleet.h"

namespace carya::remote {

// A fleet whose workers another program starts and stops: a child process that reads and writes lines of
// JSON on its standard input and output, which are one socket. Its standard error is this process's.
//
//   to it      {"command":"start","options":{...},"fleet":"9f86d081884c7d65"}
//                                                    first; the options are its own matter, the name is the
//                                                    same for the children of one fleet, and nobody else's
//              {"command":"scale","count":3}
//              {"command":"members"}                 at least every few seconds: a sign of life is wanted
//              {"command":"stop"}                    or the end of input: end all workers, and itself
//   from it    {"event":"ready","most":40}           it works; how many workers there can be
//              {"event":"members","members":["10.0.0.7:41200"]}   all that are there now
//              {"event":"log","text":"..."}          for the log
//
// What it says is hostile until checked: a line of more than 1 MiB, or that is none of these, ends it.

/// A line from the child.
struct ChildLine {
  enum class Event : std::uint8_t { kReady, kMembers, kLog };
  Event event{};
  std::uint32_t most = 0;              ///< of kReady
  std::vector<std::string> members{};  ///< of kMembers: addresses, each once
  std::string text{};                  ///< of kLog
};
/// Errors: kCorrupt, with what is wrong.
Result<ChildLine> parse_child_line(const std::string& line);

struct ChildFleetOptions {
  FleetOptions fleet{};
  std::vector<std::string> command{};     ///< program (looked for in PATH) and arguments
  std::string options = "{}";             ///< a JSON object that the child is told at its start
  std::uint64_t ready_ms = 120'000;       ///< from its start to its ready
  std::uint64_t members_ms = 2000;        ///< between two questions for its members
  std::uint64_t silent_ms = 30'000;       ///< without a line: it hangs, and is killed
  std::uint64_t end_ms = 10'000;          ///< for its end after a stop; then it is killed
  std::uint64_t backoff_min_ms = 1000;    ///< until a child that ended is started again; doubled each time
  std::uint64_t backoff_max_ms = 60'000;  ///< at most
};

/// A child that ends, hangs or lies is killed, its members are forgotten, and it is started again after a
/// while with the count that is wanted then; at stop() too, to end what the dead one left. Errors: kInvalidArgument (no command; options that are no
/// object).
Result<std::unique_ptr<Fleet>> child_fleet(ChildFleetOptions options);

}  // namespace carya::remote
