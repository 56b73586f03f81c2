#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::remote {

/// Sends and receives bytes over a non-blocking socket that it owns, with or without TLS. Threads: one at a time.
class ByteStream {
 public:
  explicit ByteStream(UniqueFd socket) : socket_(std::move(socket)) {}
  virtual ~ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  int fd() const { return socket_.get(); }

  /// Continue to connect, and the handshake of TLS. Returns true when it is done. Errors: kIo, kClosed, kTimeout (of
  /// the system), kPermission (a certificate that is not trusted or has another name).
  virtual Result<bool> establish() = 0;
  /// Read what has arrived into the parts, in order, and return the number of bytes; 0: nothing has arrived. Errors:
  /// kClosed (the peer has ended), kIo, kCorrupt (TLS).
  virtual Result<std::size_t> read(std::span<const iovec> parts) = 0;
  /// Write as many bytes as the socket takes, and return their number, which may be 0. The next call must begin with
  /// the first byte that was not taken. Errors: kClosed, kIo.
  virtual Result<std::size_t> write(std::span<const iovec> parts) = 0;

  /// Whether bytes were taken from the socket that no read() has returned yet. A poller does not see them.
  virtual bool has_buffered() const { return false; }
  /// Announce that `bytes` are certain to arrive. The socket may then become ready only when a good part of them is
  /// there, because one large read costs less than many small ones. read() still returns what there is: call it now
  /// and then.
  virtual void set_wanted(std::size_t bytes) { static_cast<void>(bytes); }
  /// Whether establish() or read() waits for room to write.
  virtual bool wants_write() const { return false; }
  /// "plain", "TLSv1.3", "TLSv1.3 resumed".
  virtual std::string kind() const { return "plain"; }
  /// The URIs in the certificate that the peer has shown and that was checked, as they stand there; none without TLS.
  virtual std::vector<std::string> peer_uris() const { return {}; }

 private:
  UniqueFd socket_;
};

/// A stream without TLS. One system call moves what a read returns from the kernel into the parts.
std::unique_ptr<ByteStream> plain_stream(UniqueFd socket);

/// The error of a socket's system call: kClosed when the peer has gone.
std::unexpected<Error> fail_socket(const char* what, int sys_errno);
/// Whether a socket's connect() is done. Errors: as ByteStream::establish().
Result<bool> is_connected(int socket);

}  // namespace carya::remote
