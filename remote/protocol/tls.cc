#include "remote/protocol/tls.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/unix_socket.h"

namespace carya::remote {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL_SESSION, Freed<SSL_SESSION_free>>;
using Ssl = std::unique_ptr<SSL, Freed<SSL_free>>;

/// Bytes that one system call takes from the socket: several records of 16 KiB, where OpenSSL's default is
/// two calls per record.
constexpr std::size_t kReadAhead = 128 << 10;

/// What OpenSSL has to say, its queue emptied.
std::unexpected<Error> fail_tls(Code code, const std::string& subject) {
  std::string message = subject;
  while (const unsigned long error = ERR_get_error()) {
    char text[256];
    ERR_error_string_n(error, text, sizeof(text));
    if (message.size() < 500) message += std::string(": ") + text;
  }
  return fail(code, message);
}

// The socket as OpenSSL sees it: its own kind would raise SIGPIPE when the peer is gone.

int bio_fd(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}
int bio_read(BIO* bio, char* bytes, std::size_t count, std::size_t* done) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = recv(bio_fd(bio), bytes, count, 0);
  if (got < 0 && is_again(errno)) BIO_set_retry_read(bio);
  *done = got > 0 ? static_cast<std::size_t>(got) : 0;
  return got > 0 ? 1 : 0;
}
int bio_write(BIO* bio, const char* bytes, std::size_t count, std::size_t* done) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send(bio_fd(bio), bytes, count, MSG_NOSIGNAL);
  if (sent < 0 && is_again(errno)) BIO_set_retry_write(bio);
  *done = sent > 0 ? static_cast<std::size_t>(sent) : 0;
  return sent > 0 ? 1 : 0;
}
long bio_ctrl(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}
BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "carya socket");
    BIO_meth_set_read_ex(made, bio_read);
    BIO_meth_set_write_ex(made, bio_write);
    BIO_meth_set_ctrl(made, bio_ctrl);
    return made;
  }();
  return method;
}

class TlsStream final : public ByteStream {
 public:
  TlsStream(UniqueFd socket, Ssl ssl, std::vector<std::string> names)
      : ByteStream(std::move(socket)), ssl_(std::move(ssl)), names_(std::move(names)) {
    BIO* const bio = BIO_new(socket_method());
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd())));
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
  }
  ~TlsStream() override {
    if (SSL_is_init_finished(ssl_.get()))
      SSL_shutdown(ssl_.get());  // best effort: one record, if there is room
    ERR_clear_error();
  }

  Result<bool> establish() override;
  Result<std::size_t> read(std::span<const iovec> parts) override;
  Result<std::size_t> write(std::span<const iovec> parts) override;
  bool has_buffered() const override { return !judged_ || (SSL_has_pending(ssl_.get()) == 1 && !starved_); }
  bool wants_write() const override { return wants_write_; }
  std::string kind() const override {
    return std::string(SSL_get_version(ssl_.get())) + (SSL_session_reused(ssl_.get()) == 1 ? " resumed" : "");
  }
  std::vector<std::string> peer_uris() const override;

 private:
  Status judge(int result, const char* what);
  Status check_names() const;

  Ssl ssl_;
  std::vector<std::string> names_;  // of a client that may come; none: any
  bool connected_ = false;
  bool wants_write_ = false;
  bool starved_ = false;  // what is buffered is no whole record
  Status judged_;         // how the last read ended
};

/// Nothing wrong: it only waits for the socket. Else why the connection is over.
Status TlsStream::judge(int result, const char* what) {
  const int sys_errno = errno;
  const int error = SSL_get_error(ssl_.get(), result);
  wants_write_ = error == SSL_ERROR_WANT_WRITE;
  if (wants_write_ || error == SSL_ERROR_WANT_READ) return {};
  if (error == SSL_ERROR_ZERO_RETURN) return fail(Code::kClosed, "the peer has ended the connection");
  const bool broken =
      error == SSL_ERROR_SYSCALL || ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER && !SSL_is_init_finished(ssl_.get())) {
    ERR_clear_error();
    return fail(Code::kCorrupt, std::string("TLS: ") + what + kSpeaksNoTls);
  }
  const bool refused = ERR_GET_REASON(ERR_peek_error()) >= SSL_AD_REASON_OFFSET;  // the peer's alert
  if (!broken) return fail_tls(refused ? Code::kPermission : Code::kCorrupt, std::string("TLS: ") + what);
  ERR_clear_error();
  if (error == SSL_ERROR_SYSCALL && sys_errno != 0) return fail_socket(what, sys_errno);
  return fail(Code::kClosed, "the peer has ended the connection without a goodbye");
}

Result<bool> TlsStream::establish() {
  if (!connected_) {
    ASSIGN(connected_, is_connected(fd()));
    wants_write_ = !connected_;
    if (!connected_) return false;
  }
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) {
    wants_write_ = false;
    TRY(check_names());
    return true;
  }
  const long verdict = SSL_get_verify_result(ssl_.get());
  auto judged = judge(result, "handshake");
  if (judged) return false;
  if (verdict != X509_V_OK) {
    judged.error().code = Code::kPermission;
    judged.error().message +=
        std::string(": the peer's certificate: ") + X509_verify_cert_error_string(verdict);
  }
  return std::unexpected(std::move(judged.error()));
}

Status TlsStream::check_names() const {
  if (names_.empty()) return {};
  const std::unique_ptr<X509, Freed<X509_free>> peer(SSL_get1_peer_certificate(ssl_.get()));
  const auto is_it = [&](const std::string& name) {
    return X509_check_host(peer.get(), name.data(), name.size(), 0, nullptr) == 1;
  };
  if (peer && std::any_of(names_.begin(), names_.end(), is_it)) return {};
  return fail(Code::kPermission, "TLS: the client's certificate is for none of the names that may come");
}

std::vector<std::string> TlsStream::peer_uris() const {
  if (!SSL_is_init_finished(ssl_.get())) return {};
  const std::unique_ptr<X509, Freed<X509_free>> peer(SSL_get1_peer_certificate(ssl_.get()));
  if (!peer) return {};
  const std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(peer.get(), NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> uris;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {  // -1 of none
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_STRING* const uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<std::size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

Result<std::size_t> TlsStream::read(std::span<const iovec> parts) {
  TRY(judged_);
  std::size_t all = 0;
  starved_ = false;
  for (const iovec& part : parts) {
    for (std::size_t at = 0; at < part.iov_len;) {
      std::size_t bytes = 0;
      ERR_clear_error();
      errno = 0;
      const int result =
          SSL_read_ex(ssl_.get(), static_cast<char*>(part.iov_base) + at, part.iov_len - at, &bytes);
      if (result != 1) {
        starved_ = true;
        judged_ = judge(result, "receive");
        if (all == 0) return judged_ ? Result<std::size_t>(0) : std::unexpected(judged_.error());
        return all;  // what is wrong is said by the next call
      }
      at += bytes;
      all += bytes;
    }
  }
  return all;
}

Result<std::size_t> TlsStream::write(std::span<const iovec> parts) {
  std::size_t all = 0;
  for (const iovec& part : parts) {
    for (std::size_t at = 0; at < part.iov_len;) {
      std::size_t bytes = 0;
      ERR_clear_error();
      errno = 0;
      const int result =
          SSL_write_ex(ssl_.get(), static_cast<const char*>(part.iov_base) + at, part.iov_len - at, &bytes);
      if (result != 1) {
        const bool wanted = wants_write_;
        TRY(judge(result, "send"));
        wants_write_ = wanted;  // who writes knows that it was not all
        return all;
      }
      at += bytes;
      all += bytes;
    }
  }
  return all;
}

}  // namespace

struct TlsSession::State {
  Session last;
  std::uint64_t renewals = 0;  // of the context that it is of
};
TlsSession::TlsSession() : state_(std::make_unique<State>()) {}
TlsSession::~TlsSession() = default;
TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;

struct TlsContext::State {
  TlsFiles files;
  std::string stamps;  // of the files that were read last
  Context context;
  std::uint64_t renewals = 0;
};
TlsContext::TlsContext(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsContext::~TlsContext() = default;

namespace {

/// A ticket that the server sent after the handshake: kept for the next connection.
int keep_session(SSL* ssl, SSL_SESSION* session) {
  auto* const kept = static_cast<TlsSession::State*>(SSL_get_app_data(ssl));
  if (kept == nullptr) return 0;
  kept->last.reset(session);
  return 1;
}

Status load_files(SSL_CTX* context, const TlsFiles& files) {
  ERR_clear_error();
  if (SSL_CTX_load_verify_locations(context, files.authority.c_str(), nullptr) != 1)
    return fail_tls(Code::kInvalidArgument, "TLS: authority " + files.authority);
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1)
    return fail_tls(Code::kInvalidArgument, "TLS: certificate " + files.certificate);
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1)
    return fail_tls(Code::kInvalidArgument, "TLS: key " + files.key);
  return {};
}

/// What changes when another file takes a file's place, or its bytes change.
std::string stamps_of(const TlsFiles& files) {
  std::string all;
  for (const std::string& path : {files.certificate, files.key, files.authority}) {
    struct stat now{};
    if (stat(path.c_str(), &now) == 0)
      all += fmt::format("{} {} {} {} {}", now.st_dev, now.st_ino, now.st_size, now.st_mtim.tv_sec,
                         now.st_mtim.tv_nsec);
    all += '\n';
  }
  return all;
}

Result<Context> make_context(const TlsFiles& files) {
  Context context(SSL_CTX_new(TLS_method()));
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1)
    return fail_tls(Code::kExhausted, "TLS: context");
  TRY(load_files(context.get(), files));
  SSL_CTX* const made = context.get();
  SSL_CTX_set_verify(made, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(made, 1);
  SSL_CTX_set_default_read_buffer_len(made, kReadAhead);
  static constexpr unsigned char kId[] = "carya";
  SSL_CTX_set_session_id_context(made, kId, sizeof(kId) - 1);
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(made, keep_session);
  return context;
}

}  // namespace

Result<std::shared_ptr<TlsContext>> TlsContext::create(const TlsFiles& files) {
  std::string stamps = stamps_of(files);  // before they are read: what changes meanwhile is seen by renew()
  ASSIGN(Context context, make_context(files));
  auto state = std::make_unique<State>(State{files, std::move(stamps), std::move(context)});
  return std::shared_ptr<TlsContext>(new TlsContext(std::move(state)));
}

Status TlsContext::renew() {
  std::string stamps = stamps_of(state_->files);
  if (stamps == state_->stamps) return {};
  state_->stamps = std::move(stamps);
  ASSIGN(state_->context, make_context(state_->files));
  ++state_->renewals;
  return {};
}

Result<std::unique_ptr<ByteStream>> TlsContext::connect(UniqueFd socket, const std::string& host,
                                                        TlsSession& session) {
  Ssl ssl(SSL_new(state_->context.get()));
  if (!ssl) return fail_tls(Code::kExhausted, "TLS: connection");
  in6_addr number{};
  const bool is_number =
      inet_pton(AF_INET, host.c_str(), &number) == 1 || inet_pton(AF_INET6, host.c_str(), &number) == 1;
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl.get());
  const int named = is_number ? X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str())
                              : X509_VERIFY_PARAM_set1_host(wanted, host.data(), host.size());
  if (host.empty() || named != 1 || (!is_number && SSL_set_tlsext_host_name(ssl.get(), host.c_str()) != 1))
    return fail_tls(Code::kInvalidArgument, "TLS: the server's name \"" + host + "\"");
  SSL_set_app_data(ssl.get(), &session.state());
  // Going on with what an older certificate has proven would be no use of the new one.
  if (std::exchange(session.state().renewals, state_->renewals) != state_->renewals)
    session.state().last.reset();
  if (session.state().last) SSL_set_session(ssl.get(), session.state().last.get());
  SSL_set_connect_state(ssl.get());
  return std::make_unique<TlsStream>(std::move(socket), std::move(ssl), std::vector<std::string>{});
}

Result<std::unique_ptr<ByteStream>> TlsContext::accept(UniqueFd socket, std::vector<std::string> names) {
  Ssl ssl(SSL_new(state_->context.get()));
  if (!ssl) return fail_tls(Code::kExhausted, "TLS: connection");
  SSL_set_accept_state(ssl.get());
  return std::make_unique<TlsStream>(std::move(socket), std::move(ssl), std::move(names));
}

}  // namespace carya::remote
