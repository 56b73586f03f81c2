#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "remote/protocol/messages.h"
#include "remote/protocol/tls.h"

namespace carya::remote {

struct UsageQuery {
  std::optional<TlsFiles> tls;  ///< none: no TLS; Unix sockets never use it
  std::string server_name;      ///< the name in the worker's certificate; "": the host of the address
  bool insecure = false;        ///< allow TCP without TLS to other machines
  Hello hello;                  ///< who asks; checked by the worker as that of any host
  std::uint64_t limit_ms = 5000;
};

/// Ask one worker who uses it. Blocks for at most `limit_ms`, and for the lookup of a name. Errors: kInvalidArgument
/// (the address, TCP without TLS to another machine), kTimeout, kClosed, kIo; what the worker refuses with.
Result<UsageIs> ask_usage(const std::string& address, const UsageQuery& query);

}  // namespace carya::remote
