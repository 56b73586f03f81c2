#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace carya::remote {

/// The workers that a host may use, and who starts and stops them: other people's engines. Carya asks for
/// more or fewer and never schedules machines itself.
///
/// Threads: one thread in run(), which alone waits for anything; all else is thread-safe and returns at once.
class Fleet {
 public:
  virtual ~Fleet() = default;

  /// Keeps members() true until stop(). After a stop() it returns when what it waits for has come or timed
  /// out: a name's lookup, or the end of a child process (some seconds at most).
  virtual void run() = 0;
  virtual void stop() = 0;

  /// So many workers are wanted from now on, at most most(). Before the first call: all that there are
  /// already, and none that would have to be started.
  virtual void scale(std::uint32_t count) = 0;
  /// Where those that are there listen, "host:port" or "unix:/path", each once, at most as many as are
  /// wanted. The pool connects to these and leaves others.
  virtual std::vector<std::string> members() const = 0;
  /// How many there can be.
  virtual std::uint32_t most() const = 0;
  /// Of one worker, in dollars per hour; 0: unknown.
  virtual double price_per_hour() const = 0;
  /// The name that all certificates must have (PoolOptions::server_name); "": the host of each address.
  virtual std::string server_name() const { return {}; }
};

struct FleetOptions {
  double price_per_hour = 0;                      ///< of one worker; 0: unknown
  std::function<void(const std::string&)> log{};  ///< one line per event; called by the thread in run()
};

/// Workers that somebody else runs at these addresses, in order of preference. Errors: kInvalidArgument: an
/// address of another form than "host:port" or "unix:/path", or none.
Result<std::unique_ptr<Fleet>> static_fleet(std::vector<std::string> addresses, FleetOptions options);

/// Whether it is "host:port", "[::1]:port" or "unix:/path", of printable characters, at most 300 bytes. No
/// name is looked up.
bool is_worker_address(const std::string& text);

}  // namespace carya::remote
