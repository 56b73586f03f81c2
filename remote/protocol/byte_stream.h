#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::remote {

/// Bytes both ways over a non-blocking socket, plain or through TLS. Owns the socket.
/// Threads: one at a time.
class ByteStream {
 public:
  explicit ByteStream(UniqueFd socket) : socket_(std::move(socket)) {}
  virtual ~ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  int fd() const { return socket_.get(); }

  /// Goes on with connecting (and with TLS's handshake). True when it is done. Errors: kIo, kClosed, kTimeout
  /// (the system's), kPermission (a certificate that is not trusted, or has another name).
  virtual Result<bool> establish() = 0;
  /// What is there, into the parts one after the other; 0: nothing now. Errors: kClosed (the peer has ended),
  /// kIo, kCorrupt (TLS).
  virtual Result<std::size_t> read(std::span<const iovec> parts) = 0;
  /// As much as there is room for; 0: none now. What was not taken must be given again, at the same bytes.
  /// Errors: kClosed, kIo.
  virtual Result<std::size_t> write(std::span<const iovec> parts) = 0;

  /// Whether bytes were taken from the socket that no read() has given yet: the socket alone does not tell.
  virtual bool has_buffered() const { return false; }
  /// How many bytes are still to come for sure: a poller may wait until a good part of them are there, for
  /// what is read in one go costs less. read() gives what there is all the same: call it now and then.
  virtual void set_wanted(std::size_t bytes) { static_cast<void>(bytes); }
  /// Whether establish() or read() waits for room to write.
  virtual bool wants_write() const { return false; }
  /// "plain", "TLSv1.3", "TLSv1.3 resumed".
  virtual std::string kind() const { return "plain"; }

 private:
  UniqueFd socket_;
};

/// Without TLS: what a read brings goes from the kernel into the parts by one system call.
std::unique_ptr<ByteStream> plain_stream(UniqueFd socket);

/// An error of a socket's system call: kClosed where the peer has gone.
std::unexpected<Error> fail_socket(const char* what, int sys_errno);
/// Whether a socket's connect() is done. Errors: as ByteStream::establish().
Result<bool> is_connected(int socket);

}  // namespace carya::remote
