#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// The answer to a request for a page.
struct HttpAnswer {
  unsigned status = 200;
  std::string body;
};

/// A socket that a page listens at.
struct HttpListening {
  UniqueFd socket;
  std::string address;  ///< with the port that was chosen
  bool is_path = false;
};

/// What an address of pages is: an absolute path, or a port of the loopback.
inline constexpr const char* kPageAddress =
    "an absolute path, or a port of the loopback such as 127.0.0.1:9464";
/// Whether `address` has such a form; what is there is not looked at.
bool is_page_address(const std::string& address);

/// Listen at `address`: an absolute path, or "127.0.0.1:9464", "[::1]:9464", "localhost:0" (a free port). Errors:
/// kInvalidArgument (another form, not the loopback), kClosed (somebody listens there), kPermission, kExhausted.
Result<HttpListening> listen_for_pages(const std::string& address);

/// Serves pages by HTTP/1.1 to programs of this host, on a Unix socket of this user alone or on a port of the loopback.
///
/// One thread serves GET and HEAD, one request per connection. Limits: 32 connections (then the oldest is closed),
/// 8 KiB of header, 10 s each. A connection that sends anything else is closed. The thread sleeps while nobody asks.
class HttpPage {
 public:
  /// The page's thread calls `answer` with the path of the request. Where the address is a path, its file is removed at
  /// the end. Errors: kExhausted, kIo.
  static Result<std::unique_ptr<HttpPage>> create(HttpListening listening,
                                                  std::function<HttpAnswer(const std::string&)> answer);
  ~HttpPage();
  /// The address at which the page listens, with the port that was chosen.
  const std::string& address() const;

 private:
  struct State;
  explicit HttpPage(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace carya::loader
