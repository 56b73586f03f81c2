// The page of all users, of texts that users' processes say.
#include "loader/daemon/metrics.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace carya::loader {
namespace {

using testing::HasSubstr;
using testing::Not;

DaemonStatus status_of(const std::string& job) {
  RankStatus rank;
  rank.samples = 27;
  rank.reads = 3;
  rank.readers.push_back({.pid = 1, .replica = 2});
  rank.ops.push_back({.name = "decode_image"});
  rank.op_cpu_s.push_back(1.5);
  rank.placement =
      R"({"workers": [{"address": "w:1", "chunks": 1, "hedged": 0, "lost": 0, "received_bytes": 1,
                       "sent_bytes": 1, "in_flight": 0, "credits": 1, "state": "up"}],
                       "running": {"workers": 1}, "bill": {"host": 1, "workers": 1, "all_local": 1, "all_remote": 1}})";
  rank.cache = R"({"looked": 5, "hits": 4, "filled": 1, "files": [{"tier": "disk", "hits": 1}]})";
  DaemonStatus status;
  status.jobs.push_back({.job = job, .ranks = {rank}});
  return status;
}

std::vector<std::string> rows(const std::string& text) {
  std::vector<std::string> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (text[at] != '#') found.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return found;
}

TEST(JoinedMetrics, EveryRowOfADaemonIsThereWithItsUser) {
  const std::string own = metrics_text(status_of("a\"b\\c"));
  const std::string page = join_metrics(std::vector<UserMetrics>{{"alice", 1, own}, {"al\"\n,ice", 2, own}});
  for (std::string row : rows(own)) {
    const auto name = row.find_first_of("{ ");
    const std::string labels = row[name] == '{' ? "," + row.substr(name + 1) : "}" + row.substr(name);
    EXPECT_THAT(page, HasSubstr("\n" + row.substr(0, name) + "{user=\"alice\",daemon=\"1\"" + labels + "\n"));
    EXPECT_THAT(page,
                HasSubstr("\n" + row.substr(0, name) + "{user=\"al\\\"?,ice\",daemon=\"2\"" + labels + "\n"));
  }
  EXPECT_EQ(rows(page).size(), 2 * rows(own).size() + 2);
  std::string family;  // the rows of one stand together
  for (std::size_t at = page.find("# TYPE "); at != std::string::npos; at = page.find("# TYPE ", at + 1)) {
    family = page.substr(at + 7, page.find(' ', at + 7) - at - 7);
    EXPECT_EQ(page.find("# TYPE " + family + " ", at + 1), std::string::npos) << family;
  }
}

TEST(JoinedMetrics, WhoDoesNotAnswerCostsOnlyItsRows) {
  const std::string page =
      join_metrics(std::vector<UserMetrics>{{"alice", 1, {}}, {"bob", 1, metrics_text(status_of("work"))}});
  EXPECT_THAT(page, HasSubstr("carya_user_up{user=\"alice\",daemon=\"1\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("carya_user_up{user=\"bob\",daemon=\"1\"} 1\n"));
  EXPECT_THAT(page,
              HasSubstr("carya_samples_total{user=\"bob\",daemon=\"1\",carya_job=\"work\",rank=\"0\"} 27\n"));
}

TEST(JoinedMetrics, WhatNoDaemonWritesIsLeftOut) {
  const std::string none = join_metrics(std::vector<UserMetrics>{{"mallory", 1, ""}});
  for (const char* row : {
           "carya_epoch{user=\"alice\"} 1",            // another user's
           "carya_epoch{daemon=\"2\"} 1",              // another daemon's
           "carya_epoch{rank=\"0\"} 1 1700000000000",  // at another time
           "carya_epoch{rank=\"0\",rank=\"1\"} 1",     // a label twice ends a scrape
           "carya_epoch{__name__=\"up\"} 1",           // another name
           "carya_epoch{rank=\"0\\x\"} 1",             // an escape that there is not
           "carya_epoch{rank=\"0} 1",                  // no end
           "carya_epoch{rank=\"0\"",                   //
           "carya_epoch{rank=\"0\"}1",                 //
           "carya_epoch{} 1",                          //
           "carya_epoch{rank=\"0\",} 1",               //
           "carya_epoch nan",
           "carya_epoch inf",
           "carya_epoch 0x10",
           "carya_epoch 1e999",
           "carya_epoch",
           "carya_epoch 1 # {a=\"b\"} 1",  // an exemplar
           "carya_user_up{} 0",
           "carya_user_up 0",
           "up 1",
           " 1",
           "",                                //
           "carya_epoch_bucket{le=\"1\"} 1",  // of no histogram
           "# TYPE carya_epoch counter",
           "# HELP x y",
           "\xff\xfe 1",
       })
    EXPECT_EQ(join_metrics(std::vector<UserMetrics>{{"mallory", 1, std::string(row) + "\n"}}), none) << row;
  EXPECT_EQ(join_metrics(std::vector<UserMetrics>{{"mallory", 1, "carya_epoch 1"}}), none)
      << "a line without an end";
}

TEST(JoinedMetrics, OfAUserOnlySoMuchCounts) {
  std::string much;
  while (much.size() < 3 * kUserMetricsBytesMax) much += "carya_epoch{rank=\"0\"} 1\n";
  EXPECT_LT(join_metrics(std::vector<UserMetrics>{{"mallory", 1, much}}).size(), 4 * kUserMetricsBytesMax);
}

TEST(JoinedMetrics, BytesThatAreNoTextAreReplaced) {
  const std::string page =
      join_metrics(std::vector<UserMetrics>{{"mallory", 1, "carya_epoch{carya_job=\"\xff\x01\"} 1\n"}});
  EXPECT_THAT(page, HasSubstr("carya_job=\"\xef\xbf\xbd?\"} 1\n"));
  EXPECT_THAT(page, Not(HasSubstr("\x01")));
}

}  // namespace
}  // namespace carya::loader
