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

/// The address of the Unix socket at `path`. Errors: kInvalidArgument (empty, or longer than the kernel takes), with
/// `subject` in front.
Result<sockaddr_un> unix_address(const std::string& path, const std::string& subject);

/// Attach descriptors to a message that is about to be sent. `room` has CMSG_SPACE of their bytes, aligned as cmsghdr,
/// and outlives the message.
void put_fds(msghdr& message, std::span<char> room, std::span<const int> fds);
/// Move all descriptors of a received message into `fds`. Call it before anything of the message is checked, so that no
/// descriptor leaks.
void take_fds(msghdr& message, std::vector<UniqueFd>& fds);

/// Whether `error`, an errno of a non-blocking call, means to wait and call again.
bool is_again(int error);
/// Wait until `fd` is ready for `events`, at most until `end_ns` (CLOCK_MONOTONIC). Returns 1 if it is ready, 0 after
/// that time, and a negative errno if poll() fails (-EINTR after a signal).
int poll_until(int fd, short events, std::int64_t end_ns);

}  // namespace carya
