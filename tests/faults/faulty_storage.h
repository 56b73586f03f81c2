#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace carya::faults {

enum class StorageFault : std::uint32_t {
  kNone,
  kError,    ///< every third read is EIO
  kDead,     ///< every read is EIO
  kShort,    ///< reads give half of what was asked for
  kSlow,     ///< reads of every seventh file take 2 s
  kResized,  ///< files end earlier than they did, in size and in content
};

/// A mounted folder that shows another one, through a FUSE process of its own that misbehaves on demand.
class FaultyStorage {
 public:
  /// Errors: kUnsupported where nothing may be mounted.
  static Result<std::unique_ptr<FaultyStorage>> mount(const std::string& source);
  ~FaultyStorage();
  FaultyStorage(const FaultyStorage&) = delete;
  FaultyStorage& operator=(const FaultyStorage&) = delete;

  std::string path() const { return path_; }
  void set(StorageFault fault) { control_->fault = static_cast<std::uint32_t>(fault); }
  /// Reads and sizes that were spoilt so far.
  std::uint64_t spoilt() const { return control_->spoilt; }

  struct Control {
    std::atomic<std::uint32_t> fault;
    std::atomic<std::uint64_t> reads, spoilt;
  };

 private:
  FaultyStorage() = default;

  std::string path_;
  Control* control_ = nullptr;
  pid_t server_ = -1;
};

/// The process that answers: `faults --storage-server SOURCE MOUNT CONTROL_FD`.
int run_storage_server(const std::vector<std::string>& words);

}  // namespace carya::faults
