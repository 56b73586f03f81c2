// The crew of one thread: each part once, and helpers only where cores are spare.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "loader/engine/band_crew.h"
#include "loader/engine/band_tickets.h"

namespace carya::loader {
namespace {

/// So many cores are spare; those that are kept may be asked back.
class Cores final : public SpareCores {
 public:
  explicit Cores(int spare) : all_(spare), spare_(spare) {}
  bool take() override {
    int spare = spare_;
    while (spare > 0 && !spare_.compare_exchange_weak(spare, spare - 1)) {
    }
    most_out_ = std::max(most_out_.load(), all_ - spare_);
    taken_ += spare > 0;
    return spare > 0;
  }
  bool keep() override { return !wanted_; }
  void give() override { ++spare_; }

  void want_back() { wanted_ = true; }
  int out() const { return all_ - spare_; }
  int most_out() const { return most_out_; }
  int taken() const { return taken_; }

 private:
  const int all_;
  std::atomic<int> spare_;
  std::atomic<int> most_out_{0};
  std::atomic<int> taken_{0};
  std::atomic<bool> wanted_{false};
};

/// Checks what a runner may do; each part spins for a moment.
class Checked final : public BandWork {
 public:
  explicit Checked(int parts, int fails_at = -1, bool throws = false)
      : prepared_(static_cast<std::size_t>(parts)),
        run_(static_cast<std::size_t>(parts)),
        fails_at_(fails_at),
        throws_(throws) {}

  bool prepare(int part) override {
    EXPECT_EQ(preparing_.fetch_add(1), 0);
    EXPECT_EQ(part, next_++);
    prepared_[static_cast<std::size_t>(part)] = 1;
    --preparing_;
    return true;
  }
  bool run(int part, int lane) override {
    EXPECT_FALSE(on_lane_.at(static_cast<std::size_t>(lane)).exchange(true));
    EXPECT_EQ(prepared_[static_cast<std::size_t>(part)], 1);
    ++run_[static_cast<std::size_t>(part)];
    helped_ += lane > 0;
    for (const std::int64_t end = monotonic_ns() + 200'000; monotonic_ns() < end;) {
    }
    on_lane_.at(static_cast<std::size_t>(lane)) = false;
    if (part != fails_at_) return true;
    if (throws_) throw std::bad_alloc();
    return false;
  }

  bool has_rest() const override { return has_rest_; }
  bool run_rest(int first, int lane) override {
    EXPECT_EQ(first, next_);
    for (int part = first; part < static_cast<int>(run_.size()); ++part) {
      prepared_[static_cast<std::size_t>(part)] = 1;
      if (!run(part, lane)) return false;
      EXPECT_FALSE(on_lane_.at(static_cast<std::size_t>(lane)));
    }
    return true;
  }
  void allow_rest() { has_rest_ = true; }
  /// Parts that helpers ran.
  int helped() const { return helped_; }
  /// Parts that prepare() was called for.
  int prepared_alone() const { return next_; }

  bool all_once() const {
    return std::ranges::all_of(run_, [](int times) { return times == 1; });
  }
  bool none_twice() const {
    return std::ranges::all_of(run_, [](int times) { return times < 2; });
  }

 private:
  std::vector<int> prepared_, run_;  // not atomic: the runner orders who reads and writes them
  std::array<std::atomic<bool>, BandRunner::kLanesMax> on_lane_{};
  std::atomic<int> preparing_{0}, helped_{0};
  int next_ = 0;
  bool has_rest_ = false;
  const int fails_at_;
  const bool throws_;
};

TEST(BandCrew, RunsEachPartOnceWhateverHelpComes) {
  for (const int spare : {0, 1, 3, 40}) {
    Cores cores(spare);
    BandCrew crew(cores);
    crew.set_threads(static_cast<std::uint32_t>(spare) + 1);
    for (const int parts : {1, 2, 7, 60}) {
      for (const bool has_rest : {false, true}) {
        Checked work(parts);
        if (has_rest) work.allow_rest();
        EXPECT_TRUE(crew.run(work, parts));
        EXPECT_TRUE(work.all_once()) << spare << " " << parts << " " << has_rest;
      }
    }
    EXPECT_EQ(cores.out(), 0);
  }
}

TEST(BandCrew, GetsHelpWhereACoreIsSpare) {
  if (!tickets_available() || std::thread::hardware_concurrency() < 2)
    GTEST_SKIP() << "no threads of oneTBB here";
  Cores cores(1);
  BandCrew crew(cores);
  crew.set_threads(2);
  for (const std::int64_t end = monotonic_ns() + 60'000'000'000;
       crew.helped_ns() == 0 && monotonic_ns() < end;) {
    Checked work(100);
    EXPECT_TRUE(crew.run(work, 100));
  }
  EXPECT_GT(crew.helped_ns(), 0);
}

TEST(BandCrew, AsksForNoMoreThreadsThanItsStreamMayHave) {
  Cores cores(64);
  BandCrew crew(cores);
  crew.set_threads(3);
  Checked work(200);
  EXPECT_TRUE(crew.run(work, 200));
  EXPECT_LE(cores.most_out(), 2);
  crew.set_threads(1);
  EXPECT_FALSE(crew.wants(1'000'000'000));
  crew.set_threads(2);
  EXPECT_FALSE(crew.wants(BandCrew::kPixelsMin - 1));
  EXPECT_EQ(crew.wants(BandCrew::kPixelsMin), tickets_available());
}

TEST(BandCrew, PreparesNothingWhereNoCoreIsSpare) {
  Cores cores(0);
  BandCrew crew(cores);
  crew.set_threads(4);
  Checked work(60);
  work.allow_rest();
  EXPECT_TRUE(crew.run(work, 60));
  EXPECT_TRUE(work.all_once());
  EXPECT_EQ(work.prepared_alone(), 0);
}

TEST(BandCrew, GoesOnAloneWhenItsCoresAreWantedBack) {
  Cores cores(3);
  cores.want_back();
  BandCrew crew(cores);
  crew.set_threads(4);
  Checked work(60);
  EXPECT_TRUE(crew.run(work, 60));
  EXPECT_TRUE(work.all_once());
  EXPECT_EQ(cores.out(), 0);
}

TEST(BandCrew, AHelperWhoseCoreIsWantedBackRunsOnePart) {
  if (!tickets_available() || std::thread::hardware_concurrency() < 2)
    GTEST_SKIP() << "no threads of oneTBB here";
  int helped = 0;
  for (const std::int64_t end = monotonic_ns() + 60'000'000'000; helped < 10 && monotonic_ns() < end;) {
    Cores cores(1);
    cores.want_back();
    BandCrew crew(cores);
    crew.set_threads(2);
    Checked work(100);
    EXPECT_TRUE(crew.run(work, 100));
    EXPECT_LE(work.helped(), cores.taken());
    helped += work.helped();
  }
  EXPECT_GE(helped, 10);
}

TEST(BandCrew, EndsSoonWhenAPartGivesUpOrHasNoMemory) {
  Cores cores(3);
  BandCrew crew(cores);
  crew.set_threads(4);
  for (const int fails_at : {0, 5, 59}) {
    Checked work(60, fails_at);
    if (fails_at == 5) work.allow_rest();
    EXPECT_FALSE(crew.run(work, 60));
    EXPECT_TRUE(work.none_twice());
    Checked short_of_memory(60, fails_at, true);
    EXPECT_THROW(crew.run(short_of_memory, 60), std::bad_alloc);
    EXPECT_EQ(cores.out(), 0);
  }
}

}  // namespace
}  // namespace carya::loader
