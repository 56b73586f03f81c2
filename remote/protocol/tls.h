#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "remote/protocol/byte_stream.h"

namespace carya::remote {

/// How the error of a handshake ends whose peer sent something that is no TLS.
inline constexpr const char* kSpeaksNoTls = ": the peer speaks no TLS";

/// PEM files of one side: its certificate (with the chain), its key, and the authority that signs the peer's.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string authority;
};

/// What a client keeps of its last connection to a server, so that the next one need not show certificates
/// again. Threads: one at a time.
class TlsSession {
 public:
  TlsSession();
  ~TlsSession();
  TlsSession(TlsSession&&) noexcept;
  TlsSession& operator=(TlsSession&&) noexcept;
  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// TLS 1.3 with mutual authentication: nothing else is spoken. SSL_read() writes straight into the parts of a
/// read. Connections that there are keep the certificates that they began with. Threads: create() anywhere, then one at
/// a time.
class TlsContext {
 public:
  /// Errors: kNotFound, kPermission, kInvalidArgument (a file that is none, a key of another certificate).
  static Result<std::shared_ptr<TlsContext>> create(const TlsFiles& files);
  ~TlsContext();

  /// Files that have changed are those of all connections from now on, as where certificates are renewed. Three calls
  /// of stat() where nothing has. Errors: those of create(); then everything stays as it is until they change again.
  Status renew();
  /// The client's side: the server's certificate must be for `host`, a name or an IP address. `session` is
  /// used and renewed; it outlives the stream.
  Result<std::unique_ptr<ByteStream>> connect(UniqueFd socket, const std::string& host, TlsSession& session);
  /// The server's side: the client's certificate must be for one of `names`, or for any if there is none.
  Result<std::unique_ptr<ByteStream>> accept(UniqueFd socket, std::vector<std::string> names);

 private:
  struct State;
  explicit TlsContext(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace carya::remote
