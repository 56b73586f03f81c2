#include "loader/program/http_page.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>  // Boost 1.74 forgets it

#include <fmt/core.h>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <charconv>
#include <deque>
#include <optional>
#include <thread>

#include "base/unique_fd.h"
#include "base/unix_socket.h"

namespace carya::loader {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Protocol = asio::generic::stream_protocol;
using Stream = boost::beast::basic_stream<Protocol>;
using Answer = std::function<HttpAnswer(const std::string&)>;

constexpr std::size_t kConnectionsMax = 32;
constexpr std::uint32_t kHeaderBytesMax = 8 << 10;
constexpr std::chrono::seconds kPatience{10};

/// One connection: a request, its answer, the end.
class Visit : public std::enable_shared_from_this<Visit> {
 public:
  Visit(Protocol::socket socket, const Answer& answer) : stream_(std::move(socket)), answer_(answer) {
    request_.header_limit(kHeaderBytesMax);
  }
  void read() {
    stream_.expires_after(kPatience);
    http::async_read_header(stream_, buffer_, request_,
                            [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                              if (!error) self->reply();
                            });
  }
  void end() { stream_.close(); }

 private:
  void reply() {
    const auto& asked = request_.get();
    const bool head = asked.method() == http::verb::head;
    const std::string target(asked.target());
    const HttpAnswer said = head || asked.method() == http::verb::get
                                ? answer_(target.substr(0, target.find('?')))
                                : HttpAnswer{405, "only GET and HEAD\n"};
    response_.version(11);
    response_.result(said.status);
    response_.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
    response_.set(http::field::connection, "close");
    response_.content_length(said.body.size());
    if (!head) response_.body() = said.body;
    stream_.expires_after(kPatience);
    http::async_write(
        stream_, response_, [self = shared_from_this()](boost::system::error_code, std::size_t) {
          boost::system::error_code ignored;
          static_cast<void>(self->stream_.socket().shutdown(Protocol::socket::shutdown_send, ignored));
        });
  }

  Stream stream_;
  boost::beast::flat_buffer buffer_{kHeaderBytesMax};
  http::request_parser<http::empty_body> request_;
  http::response<http::string_body> response_;
  const Answer& answer_;
};

std::unexpected<Error> wrong(const std::string& address) {
  return fail(Code::kInvalidArgument, "metrics: address: got " + address + "; give " + kPageAddress);
}

Result<UniqueFd> listen_at(const sockaddr* address, std::size_t bytes, const std::string& name) {
  UniqueFd listening(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listening) return fail_errno("metrics: socket", errno);
  const int on = 1;
  setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address->sa_family == AF_UNIX) fchmod(listening.get(), 0600);  // what bind() makes
  if (bind(listening.get(), address, static_cast<socklen_t>(bytes)) != 0 ||
      listen(listening.get(), 64) != 0) {
    if (errno == EADDRINUSE)
      return fail(Code::kClosed, "metrics: somebody listens at " + name + "; give another address");
    return fail_errno("metrics: listen at " + name, errno);
  }
  return listening;
}

Result<UniqueFd> listen_at_path(const std::string& path) {
  const Result<sockaddr_un> address = unix_address(path, "metrics");
  if (!address) return wrong(path);
  const auto* any = reinterpret_cast<const sockaddr*>(&*address);
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  struct stat info{};
  const bool exists = lstat(path.c_str(), &info) == 0;
  if (exists && !S_ISSOCK(info.st_mode))
    return fail(Code::kInvalidArgument,
                "metrics: " + path + " exists and is no socket; remove it, or give another path");
  // Left by a daemon that was killed.
  if (exists && connect(probe.get(), any, sizeof(*address)) != 0 && errno == ECONNREFUSED)
    unlink(path.c_str());
  return listen_at(any, sizeof(*address), path);
}

/// A port of the loopback; none: the text is something else.
std::optional<asio::ip::tcp::endpoint> parse_port(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  unsigned short port = 0;
  const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  boost::system::error_code bad;
  const auto ip = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, bad);
  if (bad || !ip.is_loopback() || error != std::errc() || end != text.data() + text.size() ||
      colon + 1 == text.size())
    return std::nullopt;
  return asio::ip::tcp::endpoint(ip, port);
}

Result<UniqueFd> listen_at_port(const std::string& text, std::string& address) {
  auto endpoint = parse_port(text);
  if (!endpoint) return wrong(text);
  ASSIGN(UniqueFd listening, listen_at(endpoint->data(), endpoint->size(), text));
  socklen_t bytes = static_cast<socklen_t>(endpoint->capacity());
  if (getsockname(listening.get(), endpoint->data(), &bytes) != 0)
    return fail_errno("metrics: socket", errno);
  address = fmt::format("{}{}", text.substr(0, text.rfind(':') + 1), endpoint->port());
  return listening;
}

}  // namespace

struct HttpPage::State {
  std::string address;
  bool is_path = false;
  Answer answer;
  asio::io_context io{1};
  asio::basic_socket_acceptor<Protocol> acceptor{io};
  asio::steady_timer pause{io};
  std::deque<std::weak_ptr<Visit>> visits;  // oldest first
  std::thread thread;

  void accept() {
    acceptor.async_accept([this](boost::system::error_code error, Protocol::socket socket) {
      if (!error) {
        accept();
        std::erase_if(visits, [](const auto& visit) { return visit.expired(); });
        if (visits.size() >= kConnectionsMax) {
          if (const auto oldest = visits.front().lock()) oldest->end();
          visits.pop_front();
        }
        const auto visit = std::make_shared<Visit>(std::move(socket), answer);
        visits.push_back(visit);
        return visit->read();
      }
      if (error == asio::error::operation_aborted) return;
      pause.expires_after(std::chrono::milliseconds(100));  // no descriptor is left: do not spin
      pause.async_wait([this](boost::system::error_code ended) {
        if (!ended) accept();
      });
    });
  }
  void run() {
    while (true) {
      try {
        io.run();
        return;
      } catch (const std::exception&) {  // out of memory for one visit: that one is gone, the page is not
      }
    }
  }
};

HttpPage::HttpPage(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpPage::~HttpPage() {
  state_->io.stop();
  if (state_->thread.joinable()) state_->thread.join();
  if (state_->is_path) unlink(state_->address.c_str());
}

const std::string& HttpPage::address() const {
  return state_->address;
}

bool is_page_address(const std::string& address) {
  if (address.starts_with('/')) return unix_address(address, "metrics").has_value();
  return parse_port(address).has_value();
}

Result<HttpListening> listen_for_pages(const std::string& address) {
  HttpListening listening{.socket = {}, .address = address, .is_path = address.starts_with('/')};
  ASSIGN(listening.socket,
         listening.is_path ? listen_at_path(address) : listen_at_port(address, listening.address));
  return listening;
}

Result<std::unique_ptr<HttpPage>> HttpPage::create(HttpListening given, Answer answer) {
  auto state = std::make_unique<State>();
  state->address = std::move(given.address);
  state->answer = std::move(answer);
  state->is_path = given.is_path;
  UniqueFd listening = std::move(given.socket);
  sockaddr bound{};
  socklen_t bytes = sizeof(bound);
  getsockname(listening.get(), &bound, &bytes);
  boost::system::error_code error;
  static_cast<void>(state->acceptor.assign(Protocol(bound.sa_family, 0), listening.get(), error));
  if (error) return fail(Code::kIo, "metrics: " + error.message());
  static_cast<void>(listening.release());
  state->accept();
  try {
    state->thread = std::thread([page = state.get()] { page->run(); });
  } catch (const std::system_error&) {
    return fail(Code::kExhausted,
                "metrics: no thread can be started; raise the limit of processes (ulimit -u)");
  }
  return std::unique_ptr<HttpPage>(new HttpPage(std::move(state)));
}

}  // namespace carya::loader
