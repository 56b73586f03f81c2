#include "loader/control/listening.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/unix_socket.h"
#include "loader/control/channel.h"

namespace carya::loader {
namespace {

namespace fs = std::filesystem;

/// The folder, which one user alone may write to, and which others may look through where they may connect.
Status make_folder(const std::string& folder, bool all_users) {
  std::error_code error;
  if (fs::create_directories(folder, error)) {
    auto mode = fs::perms::owner_all;
    if (all_users) mode |= fs::perms::group_exec | fs::perms::others_exec;
    fs::permissions(folder, mode, error);
  }
  struct stat info{};
  if (stat(folder.c_str(), &info) != 0) return fail_errno("caryad: folder " + folder, errno);
  return {};
}

}  // namespace

Result<UniqueFd> listen_for_clients(const std::string& path, bool all_users) {
  ASSIGN(const sockaddr_un address, unix_address(path, "caryad"));
  if (const auto slash = path.rfind('/'); slash != std::string::npos && slash > 0)
    TRY(make_folder(path.substr(0, slash), all_users));
  if (Channel::connect(path))
    return fail(Code::kClosed,
                "caryad: another daemon listens at " + path + "; use it, or give --socket another path");
  struct stat info{};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode))
      return fail(Code::kInvalidArgument,
                  "caryad: " + path + " exists and is no socket; remove it, or give --socket another path");
    unlink(path.c_str());  // of a daemon that was killed
  }
  UniqueFd listening(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listening) return fail_errno("caryad: socket", errno);
  const mode_t before = umask(all_users ? 0111 : 0177);
  const int bound = bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  umask(before);
  if (bound != 0) return fail_errno("caryad: bind " + path, error);
  if (::listen(listening.get(), SOMAXCONN) != 0) {
    const int refused = errno;
    unlink(path.c_str());
    return fail_errno("caryad: listen at " + path, refused);
  }
  return listening;
}

namespace {

/// A message of one byte, with room for one descriptor.
struct Handing {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  Handing() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
  }
};

}  // namespace

int hand_over(int socket, int connection) {
  Handing handing;
  put_fds(handing.message, handing.room, {&connection, 1});
  return sendmsg(socket, &handing.message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

UniqueFd take_handed(int socket, bool& ended) {
  Handing handing;
  handing.message.msg_control = handing.room;
  handing.message.msg_controllen = CMSG_LEN(sizeof(int));  // room for one descriptor, and no second
  const ssize_t got = recvmsg(socket, &handing.message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  ended = got == 0 || (got < 0 && !is_again(errno));
  const cmsghdr* const came = got > 0 ? CMSG_FIRSTHDR(&handing.message) : nullptr;
  if (came != nullptr && came->cmsg_level == SOL_SOCKET && came->cmsg_type == SCM_RIGHTS)
    return UniqueFd(*reinterpret_cast<const int*>(CMSG_DATA(came)));
  if (got > 0) errno = EMFILE;  // it is lost, and its client finds its connection closed
  return {};
}

}  // namespace carya::loader
