#include "loader/job/outage_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace carya::loader {
namespace {

using State = remote::WorkerStats::State;
using Lines = std::vector<std::string>;

struct Outages : testing::Test {
  static remote::WorkerStats worker(State state, const std::string& reason = "", std::uint64_t ended = 0,
                                    const std::string& address = "w:1") {
    remote::WorkerStats one;
    one.member = 1;
    one.address = address;
    one.state = state;
    one.reason = reason;
    one.ended = ended;
    return one;
  }
  static std::string tier(std::uint64_t troubles, std::uint64_t fetched) {
    return R"({"files": [{"path": "/nvme", "fetched": )" + std::to_string(fetched) +
           R"(, "written": 0, "troubles": )" + std::to_string(troubles) +
           R"(, "trouble": "read: EIO"}], "storages": []})";
  }
  /// The lines of one look, some seconds later, at what each stream says.
  Lines look(const std::vector<std::vector<remote::WorkerStats>>& streams, const std::string& cache = "",
             int seconds = 11) {
    now_ns += seconds * 1'000'000'000LL;
    lines.clear();
    log.begin();
    for (std::size_t i = 0; i < streams.size(); ++i) log.take_workers(i + 1, streams[i]);
    if (!cache.empty()) log.take_cache(1, cache);
    log.end(now_ns);
    return lines;
  }

  Lines lines;
  OutageLog log{[this](LogLevel level, const std::string& line) {
    EXPECT_EQ(level, LogLevel::kWarning);
    lines.push_back(line);
  }};
  std::int64_t now_ns = 1'000'000'000;
};

TEST_F(Outages, AWorkerThatGoesAndComesBackIsALineEach) {
  EXPECT_EQ(look({{worker(State::kConnecting)}}), Lines{});
  EXPECT_EQ(look({{worker(State::kUp)}}), Lines{});
  const Lines away{R"(worker is away address=w:1 why="silent for 3000 ms")"};
  EXPECT_EQ(look({{worker(State::kDown, "silent for 3000 ms", 1)}}), away);
  EXPECT_EQ(look({{worker(State::kConnecting, "silent for 3000 ms", 1)}}), Lines{});
  EXPECT_EQ(look({{worker(State::kParked, "connection refused", 1)}}), Lines{});
  EXPECT_EQ(look({{worker(State::kUp, "connection refused", 1)}}), Lines{"worker is back address=w:1"});
  EXPECT_EQ(look({{worker(State::kUp, "connection refused", 1)}}), Lines{});
}

TEST_F(Outages, OneThatNeverCameIsSaid) {
  EXPECT_EQ(look({{worker(State::kDown, "its name is \"x\"")}}),
            Lines{R"(worker is away address=w:1 why="its name is \"x\"")"});
}

TEST_F(Outages, AllStreamsTogetherHaveOneLine) {
  const auto down = worker(State::kDown, "gone"), up = worker(State::kUp);
  EXPECT_EQ(look({{up}, {down}}), Lines{});
  EXPECT_EQ(look({{down}, {down}, {down}}), Lines{"worker is away address=w:1 why=gone"});
  EXPECT_EQ(look({{up}, {up}}), Lines{"worker is back address=w:1"});
}

TEST_F(Outages, OneThatWasBackBeforeTheLookIsSaidToo) {
  look({{worker(State::kUp)}});
  EXPECT_EQ(look({{worker(State::kUp, "gone", 1)}}),
            Lines{"worker was away for a moment address=w:1 times=1 why=gone"});
}

TEST_F(Outages, ThereIsALineInTenSecondsAndTheLastStateIsSaid) {
  look({{worker(State::kUp)}});
  EXPECT_EQ(look({{worker(State::kDown, "gone", 1)}}, "", 1).size(), 1U);
  EXPECT_EQ(look({{worker(State::kUp, "gone", 1)}}, "", 1), Lines{});
  EXPECT_EQ(look({{worker(State::kDown, "gone", 2)}}, "", 1), Lines{});
  EXPECT_EQ(look({{worker(State::kUp, "gone", 2)}}, "", 1), Lines{});
  EXPECT_EQ(look({{worker(State::kUp, "gone", 2)}}, "", 8), Lines{"worker is back address=w:1"});
}

TEST_F(Outages, AFleetThatGoesIsNotAThousandLinesAtOnce) {
  std::vector<remote::WorkerStats> all;
  for (std::uint64_t i = 0; i < 50; ++i) {
    all.push_back(worker(State::kDown, "gone", 0, "w:" + std::to_string(i)));
    all.back().member = i + 1;
  }
  EXPECT_EQ(look({all}, "", 1).size(), OutageLog::kLinesMax);
  EXPECT_EQ(look({all}, "", 1).size(), OutageLog::kLinesMax);
  EXPECT_EQ(look({all}, "", 1).size(), 50 - 2 * OutageLog::kLinesMax);
}

TEST_F(Outages, OneThatIsExpelledIsSaidOnceByEachStream) {
  const auto liar = worker(State::kExpelled, "its bits differ");
  EXPECT_EQ(look({{liar}}), Lines{R"(worker is expelled address=w:1 why="its bits differ")"});
  EXPECT_EQ(look({{liar}}), Lines{});
}

TEST_F(Outages, AFolderThatFailsAndWorksAgainIsALineEach) {
  EXPECT_EQ(look({}, tier(0, 5)), Lines{});
  EXPECT_EQ(look({}, tier(1, 5)), Lines{R"(cache folder is not used for now path=/nvme why="read: EIO")"});
  EXPECT_EQ(look({}, tier(2, 5)), Lines{});
  EXPECT_EQ(look({}, tier(2, 6)), Lines{"cache folder is used again path=/nvme"});
  EXPECT_EQ(look({}, tier(3, 6)).size(), 1U);
}

TEST_F(Outages, AStorageThatCannotBeUsedIsSaid) {
  const std::string report =
      R"({"files": [], "storages": [{"path": "/nfs", "trouble": "open: Permission denied"}]})";
  EXPECT_EQ(look({}, report),
            Lines{R"(cache folder is not used for now path=/nfs why="open: Permission denied")"});
  EXPECT_EQ(look({}, report), Lines{});
}

}  // namespace
}  // namespace carya::loader
