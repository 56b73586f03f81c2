#include "loader/daemon/users_page.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "loader/control/channel.h"
#include "loader/control/documents.h"
#include "loader/control/long_message.h"
#include "loader/daemon/metrics.h"
#include "loader/host/accounts.h"
#include "loader/users/closing_process.h"
#include "loader/users/page_process.h"

namespace carya::loader {
namespace {

constexpr std::uint32_t kQuestion = 2;
/// A daemon that says this much else is not waited for.
constexpr int kMessagesMax = 8;

/// A daemon that is asked.
struct Asked {
  UserMetrics metrics;
  Channel channel{};
};

/// The questions of one page, and what comes of them. Threads: one at a time.
class Asking {
 public:
  explicit Asking(int socket) : socket_(socket) {}

  HttpAnswer answer(const std::string& path) {
    if (path == "/healthz") return {200, "ok\n"};
    if (path != "/metrics" && path != "/readyz") return {404, "pages: /metrics, /healthz, /readyz\n"};
    closing_.look(monotonic_ns());
    std::vector<Asked> asked;
    const auto draining = ask_all(path == "/metrics" ? &asked : nullptr);
    if (!draining) return {503, draining.error().message + "\n"};
    if (path == "/readyz") return *draining ? HttpAnswer{503, "draining\n"} : HttpAnswer{200, "ready\n"};
    return {200, page_of(asked)};
  }

 private:
  /// Whether all daemons are ending. Without a list they are not asked.
  Result<bool> ask_all(std::vector<Asked>* asked) {
    std::uint64_t tag = asked != nullptr ? 0 : UINT64_MAX;
    while (true) {
      ASSIGN(NextDaemon next, next_daemon(socket_, tag));
      if (next.daemon.tag == 0) return next.daemon.draining != 0;
      tag = next.daemon.tag;
      asked->push_back({.metrics = {.user = user_name(next.daemon.uid), .number = next.daemon.number}});
      if (!next.connection) continue;
      Channel& channel = asked->back().channel = Channel(std::move(next.connection));
      if (!channel.send({.type = MessageType::kHello, .request = 1, .body = encode(Hello{"carya page"})},
                        0) ||
          !channel.send({.type = MessageType::kMetrics, .request = kQuestion}, 0))
        closing_.take(channel.release());
    }
  }

  std::string page_of(std::vector<Asked>& asked) {
    const std::int64_t end_ns = monotonic_ns() + kUsersPageMs * 1'000'000LL;
    std::vector<UserMetrics> users;
    for (Asked& one : asked) {
      one.metrics.text = text_of(one.channel, end_ns);
      if (one.channel) closing_.take(one.channel.release());
      users.push_back(std::move(one.metrics));
    }
    return join_metrics(users);
  }

  /// The answer of a daemon. Whatever descriptors it sends are closed elsewhere: it decides how long that takes.
  std::optional<std::string> text_of(Channel& channel, std::int64_t end_ns) {
    for (int count = 0; channel && count < kMessagesMax; ++count) {
      const std::int64_t left_ms = std::max<std::int64_t>(0, (end_ns - monotonic_ns()) / 1'000'000);
      std::vector<UniqueFd> refused;
      Result<Message> message = channel.receive(static_cast<int>(left_ms), &refused);
      for (UniqueFd& fd : refused) closing_.take(std::move(fd));
      if (!message) break;
      const bool is_answer = message->request == kQuestion;
      const Status whole = is_answer ? unpack_long(*message) : Status();
      for (UniqueFd& fd : message->fds) closing_.take(std::move(fd));
      if (!is_answer) continue;
      if (!whole || message->type != MessageType::kMetricsAre) break;
      auto metrics = decode<MetricsAre>(message->body);
      if (!metrics) break;
      return std::move(metrics->text);
    }
    return std::nullopt;
  }

  int socket_;
  ClosingProcess closing_;
};

}  // namespace

Status serve_users_page(int socket) {
  prctl(PR_SET_NAME, "caryad-page");
  prctl(PR_SET_DUMPABLE, 0);
  if (rlimit most{}; getrlimit(RLIMIT_NOFILE, &most) == 0) {  // a connection to each daemon
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
  }
  ASSIGN(UniqueFd listening, take_listening(socket));
  Asking asking(socket);
  ASSIGN(const auto page,
         HttpPage::create({.socket = std::move(listening), .address = {}},
                          [&asking](const std::string& path) { return asking.answer(path); }));
  pollfd end{.fd = socket, .events = POLLRDHUP, .revents = 0};
  while (poll(&end, 1, -1) <= 0) {  // a signal
  }
  return {};
}

}  // namespace carya::loader
