#include "remote/server/server.h"

#include "remote/protocol/address.h"
#include "remote/server/server_loop.h"

namespace carya::remote {

ChunkServer::ChunkServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
ChunkServer::~ChunkServer() = default;

Result<std::unique_ptr<ChunkServer>> ChunkServer::create(const ServerOptions& options,
                                                         ChunkHandler& handler) {
  ASSIGN(const Address address, Address::resolve(options.listen));
  if (!options.tls && !options.insecure && !address.is_local())
    return fail(Code::kInvalidArgument,
                "worker at " + options.listen +
                    ": others than this machine could come; give certificates (--cert, --key, --ca), or let "
                    "everybody in by --insecure");
  if (options.handling_max == 0 || options.requests_max == 0 || options.heartbeat_ms == 0 ||
      options.request_bytes_max > options.bytes_max || options.result_bytes_max > options.bytes_max)
    return fail(Code::kInvalidArgument, "worker at " + options.listen + ": a limit is 0, or above bytes_max");
  std::shared_ptr<TlsContext> tls;
  if (options.tls && !address.is_unix()) {
    ASSIGN(tls, TlsContext::create(*options.tls));
  }
  ASSIGN(UniqueFd listener, address.listen());
  ASSIGN(Poller poller, Poller::create("chunk server"));
  auto loop = std::make_unique<Loop>(options, handler, address, std::move(listener), std::move(poller),
                                     std::move(tls));
  return std::unique_ptr<ChunkServer>(new ChunkServer(std::move(loop)));
}

void ChunkServer::run() {
  loop_->run();
}
void ChunkServer::stop() {
  loop_->stop();
}
void ChunkServer::drain() {
  loop_->drain();
}
void ChunkServer::answer(const Ticket& ticket, Result<Answer> answer) {
  loop_->answer(ticket, std::move(answer));
}
std::uint16_t ChunkServer::port() const {
  return loop_->port();
}
ServerStats ChunkServer::stats() const {
  return loop_->stats();
}

}  // namespace carya::remote
