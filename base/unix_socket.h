#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya {

/// The address of a socket's path. Errors: kInvalidArgument (empty, or longer than the kernel takes), with
/// `subject` at its start.
Result<sockaddr_un> unix_address(const std::string& path, const std::string& subject);

/// Let descriptors ride on a message that is about to be sent. `room`: CMSG_SPACE of them, aligned as
/// cmsghdr.
void put_fds(msghdr& message, std::span<char> room, std::span<const int> fds);
/// Own every descriptor that came with a message, before anything is judged, so that none can leak.
void take_fds(msghdr& message, std::vector<UniqueFd>& fds);

/// Whether a non-blocking call is to be made again, after a wait.
bool is_again(int error);
/// Wait until the descriptor is ready for `events` or `end_ns` (CLOCK_MONOTONIC) has come. Gives 1 when it is
/// ready, 0 when the time is over, and an errno, negative, when poll() fails; that is -EINTR when a signal
/// came.
int poll_until(int fd, short events, std::int64_t end_ns);

}  // namespace carya
