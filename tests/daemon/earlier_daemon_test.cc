#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "loader/control/channel.h"
#include "loader/control/daemon_stream.h"
#include "loader/control/documents.h"

namespace carya::loader {
namespace {

// Answers as a daemon that does not know what a plan is: unknown fields are ignored.
void serve_one(int listening) {
  Channel channel(UniqueFd(accept(listening, nullptr, nullptr)));
  const auto hello = channel.receive(10'000);
  ASSERT_TRUE(hello) << hello.error().message;
  const Welcome welcome{.daemon = "caryad 0.0.9"};
  ASSERT_TRUE(channel.send(
      {.type = MessageType::kWelcome, .request = hello->request, .body = encode(welcome)}, 1000));
  const auto attach = channel.receive(10'000);
  ASSERT_TRUE(attach) << attach.error().message;
  const Attached attached{.job = "j", .shape = {.records = 4, .global_size = 2}};
  ASSERT_TRUE(channel.send(
      {.type = MessageType::kAttached, .request = attach->request, .body = encode(attached)}, 1000));
}

TEST(EarlierDaemon, ThatKeepsNoPlanIsRefusedByWhoHasOne) {
  std::string folder = (std::filesystem::temp_directory_path() / "carya-earlier-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = folder + "/s";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const UniqueFd listening(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listening.get(), 1), 0);
  std::thread daemon(serve_one, listening.get());
  const auto pipeline = transforms::Pipeline::parse(
      R"({"version":1,"source":{"type":"image_folder","path":"x"},"ops":[{"op":"decode_image"},{"op":"resize","size":[8,8]}],"batch":{"batch_size":2}})");
  ASSERT_TRUE(pipeline);
  const DaemonOptions options{.socket = path, .job = "j"};
  const auto sealed = DaemonStream::seal(**pipeline, options);
  ASSERT_TRUE(sealed);
  const auto attached = DaemonStream::attach(*sealed, {.order = {0, 1}}, options);
  daemon.join();
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, Code::kUnsupported) << attached.error().message;
  EXPECT_NE(attached.error().message.find("keeps no order of ops; restart it"), std::string::npos);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace
}  // namespace carya::loader
