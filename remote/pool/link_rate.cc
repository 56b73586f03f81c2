#include "remote/pool/link_rate.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <utility>

#include "base/clock.h"

namespace carya::remote {
namespace {

/// The link was the limit if it was that for such a share of the time.
constexpr double kLimitedShareMin = 0.5;
/// A kernel may tell less than its headers have.
constexpr std::size_t kKnownBytes =
    offsetof(tcp_info, tcpi_sndbuf_limited) + sizeof(tcp_info::tcpi_sndbuf_limited);

}  // namespace

double LinkRate::look(int socket) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || bytes < kKnownBytes) return 0;
  const auto limited_us = static_cast<std::int64_t>(info.tcpi_busy_time) -
                          static_cast<std::int64_t>(info.tcpi_rwnd_limited) -
                          static_cast<std::int64_t>(info.tcpi_sndbuf_limited);
  const std::int64_t now_ns = monotonic_ns();
  const std::int64_t took_ns = now_ns - std::exchange(at_ns_, now_ns);
  const std::int64_t limited_ns = (limited_us - std::exchange(limited_us_, limited_us)) * 1000;
  const std::uint64_t before = std::exchange(acked_bytes_, info.tcpi_bytes_acked);
  const bool is_limit = info.tcpi_notsent_bytes > 0 && info.tcpi_bytes_acked > before &&
                        static_cast<double>(limited_ns) >= kLimitedShareMin * static_cast<double>(took_ns);
  if (!std::exchange(was_limit_, is_limit) || !is_limit)
    return 0;  // the first was the limit for a part of it
  return static_cast<double>(info.tcpi_bytes_acked - before) * 1e9 / static_cast<double>(limited_ns);
}

}  // namespace carya::remote
