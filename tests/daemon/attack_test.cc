// Attacks on the daemon by a client that speaks the protocol by hand: each costs the attacker only.

#include <limits>

#include "loader/number_ranges.h"
#include "tests/daemon/daemon_process.h"
#include "tests/daemon/hand_client.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

using Json = HandClient::Json;

/// Whether it is the same process still, and serves.
void expect_alive(const DaemonProcess& daemon) {
  const auto status = daemon.status();
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->pid, static_cast<std::uint64_t>(daemon.pid()));
}

std::string message_of(const std::optional<HandClient::Answer>& answer) {
  return answer && answer->body.contains("error") ? answer->body["error"].value("message", "") : "";
}

TEST(Attack, ASpacingOfAnIndexBelowZeroIsRefusedAndABystanderNoticesNothing) {
  const PhotoFolder folder(40), cache(1);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const DaemonProcess daemon;
  const auto bystander = must(daemon.open(opened, {}));
  for (const std::int64_t spacing : {-1L, -2'147'483'648L, 65'536L}) {
    HandClient client(daemon.socket());
    const auto answer = client.attach(opened.pipeline->to_json(), [&](Json& body) {
      body["cache_dir"] = cache.path();
      body["options"]["decode_index"] = {{"wanted", true}, {"spacing", spacing}};
    });
    ASSERT_TRUE(answer) << "the daemon is gone";
    EXPECT_EQ(answer->type, HandClient::kError);
    EXPECT_NE(message_of(answer).find("spacing"), std::string::npos) << message_of(answer);
    EXPECT_NE(message_of(answer).find("0 to 65535"), std::string::npos) << message_of(answer);
  }
  EXPECT_EQ(drain(*bystander), expected);
  EXPECT_EQ(bystander->reattached(), 0u);
  expect_alive(daemon);
}

/// A number's place in a document, filled in: every list on the way gets one item.
Json& place_in(Json& body, std::string_view field) {
  Json* at = &body;
  for (field.remove_prefix(field.find('.') + 1); !field.empty();) {
    const auto end = std::min(field.find('.'), field.size());
    std::string name(field.substr(0, end));
    field.remove_prefix(std::min(end + 1, field.size()));
    const bool list = name.ends_with("[]");
    if (list) name.resize(name.size() - 2);
    at = &(*at)[name];
    if (list) at = &(*at)[0];
  }
  return *at;
}

TEST(Attack, NoNumberOfAnAttachEndsTheDaemon) {
  const PhotoFolder folder(8), cache(1);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon;
  const std::vector<Json> hostile{-1,
                                  0,
                                  1,
                                  std::numeric_limits<std::int64_t>::min(),
                                  std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<std::uint64_t>::max(),
                                  std::numeric_limits<double>::quiet_NaN(),
                                  std::numeric_limits<double>::infinity(),
                                  -1e308,
                                  1e308,
                                  0.5};
  for (const NumberRange& range : number_ranges()) {
    if (!range.field.starts_with("Attach.")) continue;
    for (const Json& value : hostile) {
      HandClient client(daemon.socket());
      const auto answer = client.attach(opened.pipeline->to_json(), [&](Json& body) {
        body["job"] = std::string(range.field.substr(0, 150));
        body["cache_dir"] = cache.path();
        body["options"]["slots"] = 2;
        body["options"]["decode_index"] = {{"wanted", true}};
        place_in(body, range.field) = value;
      });
      ASSERT_TRUE(answer) << range.field << " = " << value;
      if (value.is_number_float() &&
          !(value.get<double>() >= range.lowest && value.get<double>() <= range.highest))
        EXPECT_EQ(answer->type, HandClient::kError) << range.field << " = " << value;
    }
  }
  expect_alive(daemon);
}

TEST(Attack, AReaderThatStopsItsOwnJobIsAnsweredAndTheLogSaysWhoItWas) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon;
  for (int i = 0; i < 5; ++i) {
    HandClient client(daemon.socket());
    const auto attached = client.attach(opened.pipeline->to_json(), [](Json& body) { body["job"] = "own"; });
    ASSERT_TRUE(attached);
    ASSERT_EQ(attached->type, HandClient::kAttached) << message_of(attached);
    client.skip_descriptors();
    const auto done = client.ask(HandClient::kStopJob, {{"job", "own"}});
    ASSERT_TRUE(done);
    EXPECT_EQ(done->type, HandClient::kDone) << message_of(done);
    const auto notice = client.receive();
    ASSERT_TRUE(notice);
    EXPECT_EQ(notice->type, HandClient::kNotice);
    EXPECT_FALSE(client.receive()) << "the connection is closed then";
  }
  HandClient other(daemon.socket());
  const auto logs = other.ask(HandClient::kLogs, {{"lines", 1000}});
  ASSERT_TRUE(logs);
  int stopped = 0;
  for (const Json& line : logs->body["lines"]) {
    const auto text = line.get<std::string>();
    if (text.find(" stopped ") == std::string::npos) continue;
    ++stopped;
    EXPECT_NE(text.find("pid=" + std::to_string(getpid())), std::string::npos) << text;
  }
  EXPECT_EQ(stopped, 5);
  expect_alive(daemon);
}

TEST(Attack, AManifestThatIsTruncatedWhileItIsUsedCostsNothing) {
  const PhotoFolder folder(40), cache(1);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  usleep(100'000);  // a manifest of a folder that changed just now is not kept
  const DatasetOptions listing{.listing = {.cache_dir = cache.path()}};
  ASSERT_TRUE(Dataset::open(*opened.pipeline, listing));
  const auto kept = Dataset::open(*opened.pipeline, listing);
  ASSERT_TRUE(kept && (*kept)->report().from_cache) << "the attack would hit nothing";
  const DaemonProcess daemon;
  const auto job = must(daemon.open(opened, {}, {.cache_dir = cache.path()}));
  int truncated = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cache.path()))
    if (entry.path().extension() == ".manifest") {
      std::filesystem::resize_file(entry.path(), 0);
      ++truncated;
    }
  ASSERT_GT(truncated, 0);
  EXPECT_EQ(drain(*job), expected);
  EXPECT_EQ(job->reattached(), 0u);
  expect_alive(daemon);
}

}  // namespace
}  // namespace carya::loader
