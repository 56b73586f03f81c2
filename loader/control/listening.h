#pragma once

#include <sys/types.h>

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// A socket of packets that listens at `path`, for all users or for this one alone; missing folders are made. A socket
/// that a daemon left behind is replaced. Errors: kInvalidArgument (the path is too long, or no socket), kClosed
/// (another daemon listens there), kPermission, kExhausted.
Result<UniqueFd> listen_for_clients(const std::string& path, bool all_users);

/// Pass an accepted connection on to another process over `socket`, a pair of packets, as one descriptor with one byte.
/// Never waits. Returns 0, or the errno of the refusal: EAGAIN where the other process has many that it has not taken.
int hand_over(int socket, int connection);
/// The next connection that was passed on; empty where there is none, or none whose descriptor fits into this process.
/// `ended` becomes true when no more will come. Never waits, and calls the kernel only (it may stand behind a fork()).
UniqueFd take_handed(int socket, bool& ended);

}  // namespace carya::loader
