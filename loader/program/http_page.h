#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"

namespace carya::loader {

/// What a page says.
struct HttpAnswer {
  unsigned status = 200;
  std::string body;
};

/// Pages by HTTP/1.1 for programs of this host: on a Unix socket of this user alone, or on a port of the
/// loopback. One thread, GET and HEAD, one request per connection; at most 32 connections (then the oldest is
/// closed), 8 KiB of header, 10 s each. Who sends rubbish is closed. Sleeps while nobody asks.
class HttpPage {
 public:
  /// `address`: an absolute path, or "127.0.0.1:9464", "[::1]:9464", "localhost:0" (a free port). `answer` is
  /// called by the page's thread, with the path asked for. Errors: kInvalidArgument (no such form, not the
  /// loopback), kClosed (somebody listens there), kPermission, kExhausted.
  static Result<std::unique_ptr<HttpPage>> create(const std::string& address,
                                                  std::function<HttpAnswer(const std::string&)> answer);
  ~HttpPage();
  /// Where it listens, with the port that was chosen.
  const std::string& address() const;

 private:
  struct State;
  explicit HttpPage(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace carya::loader
