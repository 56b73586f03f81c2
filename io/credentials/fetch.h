#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace carya::io {

/// A small question over HTTP: for a token, or what a machine knows of itself.
struct FetchQuestion {
  std::string url;
  std::string method = "GET";
  std::vector<std::string> headers;  ///< "name: value"
  std::string body;                  ///< of a POST
  std::int64_t limit_ms = 10'000;    ///< for all of it
  bool direct = false;               ///< no proxy: an address of this machine or its link
};

struct FetchAnswer {
  int status = 0;
  std::string body;  ///< at most 1 MiB
};

/// Asks. Errors: kIo (nobody answers, or the answer is too long); the message names the host and no secret.
using Fetch = std::function<Result<FetchAnswer>(const FetchQuestion& question)>;

}  // namespace carya::io
