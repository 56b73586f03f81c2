// Connections that say nothing end after their time; who reads or asks stays.

#include <filesystem>
#include <thread>

#include "loader/daemon/server.h"
#include "tests/daemon/hand_client.h"
#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

/// A server in this process, of another patience than caryad's.
class ImpatientServer {
 public:
  ImpatientServer(double hello_s, double silent_s) {
    auto made = Server::create({.socket = socket(),
                                .limits = {.threads = 1},
                                .hello_s = hello_s,
                                .silent_s = silent_s,
                                .log = [](LogLevel, const std::string&) {}});
    EXPECT_TRUE(made) << made.error().message;
    server_ = std::move(*made);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~ImpatientServer() {
    server_->stop();
    thread_.join();
    server_->end();
  }
  ImpatientServer(const ImpatientServer&) = delete;
  ImpatientServer& operator=(const ImpatientServer&) = delete;
  std::string socket() const { return (folder_.path() / "caryad.sock").string(); }

 private:
  const PhotoFolder folder_{0};
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

/// Waits until the server has closed the connection; false after a minute.
bool is_closed(const HandClient& client) {
  pollfd ready{.fd = client.fd(), .events = POLLIN, .revents = 0};
  char byte = 0;
  return poll(&ready, 1, 60'000) == 1 && recv(client.fd(), &byte, 1, 0) == 0;
}

/// Longer than a machine under load keeps a process from its next message.
constexpr double kPatienceS = 3;

TEST(SilentConnections, WithoutAHelloEndAfterTheirTime) {
  const ImpatientServer server(kPatienceS, 600);
  const HandClient silent(server.socket(), false);
  EXPECT_TRUE(is_closed(silent));
  HandClient other(server.socket());
  EXPECT_TRUE(other.ask(HandClient::kStatus, HandClient::Json::object())) << "a hello was in time";
}

TEST(SilentConnections, ThatAskNothingEndAndWhoReadsOrAsksStays) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const ImpatientServer server(600, kPatienceS);
  HandClient reads(server.socket());
  const auto seat = reads.attach(opened.pipeline->to_json(), [](auto&) {});
  ASSERT_TRUE(seat);
  ASSERT_EQ(seat->type, HandClient::kAttached) << seat->body;
  reads.skip_descriptors();
  const HandClient silent(server.socket());  // said hello later than the reader said its last word
  ASSERT_TRUE(silent.greeted());
  HandClient asks(server.socket());
  pollfd closed{.fd = silent.fd(), .events = POLLIN, .revents = 0};
  while (poll(&closed, 1, 10) == 0) ASSERT_TRUE(asks.ask(HandClient::kStatus, HandClient::Json::object()));
  EXPECT_TRUE(is_closed(silent));
  EXPECT_TRUE(asks.ask(HandClient::kStatus, HandClient::Json::object()));
  const auto sought = reads.ask(HandClient::kSeek, {{"epoch", 1}, {"position", 0}});
  ASSERT_TRUE(sought);
  EXPECT_EQ(sought->type, HandClient::kSeek + 1) << sought->body;
}

}  // namespace
}  // namespace carya::loader
