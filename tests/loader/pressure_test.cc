#include "loader/host/pressure.h"

#include <gtest/gtest.h>

#include <random>

#include "base/cgroup.h"
#include "tests/io/temp_dir.h"

namespace carya::loader {
namespace {

TEST(Pressure, ReadsTheShareInWhichSomeTaskWaited) {
  EXPECT_DOUBLE_EQ(*psi_share("some avg10=12.50 avg60=3.00 avg300=1.00 total=5\nfull avg10=1.00"), 0.125);
  EXPECT_DOUBLE_EQ(*psi_share("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"), 0);
  for (const char* bad : {"", "full avg10=12.50 avg60=3.00", "some avg10=rubbish", "some avg10=-1.00",
                          "some avg10=100.01", "some avg10=nan", "some avg10=1e999", "some avg10="})
    EXPECT_FALSE(psi_share(bad)) << bad;
}

TEST(Pressure, ReadsTheRunQueue) {
  EXPECT_EQ(runnable_from("0.20 0.18 0.12 3/80 11206\n"), 3U);
  EXPECT_EQ(runnable_from("99.00 98.00 97.00 1024/4096 1\n"), 1024U);
  for (const char* bad : {"", "0.20 0.18 0.12", "0.20 0.18 0.12 -3/80", "a/b", "/", " /80",
                          "0.20 0.18 0.12 99999999999999999999999/80"})
    EXPECT_FALSE(runnable_from(bad)) << bad;
}

TEST(Pressure, ReadsThrottlingOfBothCgroupVersions) {
  const auto two = throttling_from(
      "usage_usec 12\nuser_usec 8\nsystem_usec 4\nnr_periods 200\nnr_throttled 50\nthrottled_usec 2500000\n");
  ASSERT_TRUE(two);
  EXPECT_EQ(two->periods, 200U);
  EXPECT_EQ(two->throttled, 50U);
  EXPECT_DOUBLE_EQ(two->throttled_s, 2.5);
  const auto one = throttling_from("nr_periods 4\nnr_throttled 1\nthrottled_time 1500000000");
  ASSERT_TRUE(one);
  EXPECT_DOUBLE_EQ(one->throttled_s, 1.5);
  for (const char* bad :
       {"", "usage_usec 12\nuser_usec 8\n", "nr_periods 4\nnr_throttled 1\n",
        "nr_periods 4\nthrottled_time 1\n", "nr_periods -4\nnr_throttled 1\nthrottled_time 1\n",
        "nr_periods 4\nnr_throttled 5\nthrottled_time 1\n", "nr_periods\nnr_throttled\nthrottled_usec\n",
        "nr_periodsnr_throttled 1\nthrottled_time 1",
        "nr_periods 4\nnr_throttled 99999999999999999999999\nthrottled_time 1\n"})
    EXPECT_FALSE(throttling_from(bad)) << bad;
}

TEST(Pressure, AnyTextGivesSharesOrNothing) {
  const std::string good[] = {"some avg10=12.50 avg60=3.00 avg300=1.00 total=5",
                              "nr_periods 200\nnr_throttled 50\nthrottled_usec 2500000\n",
                              "0.20 0.18 0.12 3/80 11206\n", "12:cpu,cpuacct:/a/b\n0::/c\n"};
  std::mt19937 random(11);
  for (int i = 0; i < 4'000; ++i) {
    std::string text = good[random() % std::size(good)];
    for (unsigned changes = random() % 6; changes > 0; --changes)
      text[random() % text.size()] = static_cast<char>(random());
    text.resize(random() % (text.size() + 1));
    if (const auto share = psi_share(text)) {
      ASSERT_TRUE(*share >= 0 && *share <= 1) << text;
    }
    if (const auto found = throttling_from(text)) {
      ASSERT_LE(found->throttled, found->periods) << text;
    }
    static_cast<void>(runnable_from(text));
    static_cast<void>(cgroup_path(text, "cpu"));
  }
}

TEST(Pressure, FindsThePathOfAController) {
  const std::string text = "12:cpu,cpuacct:/docker/1\n3:memory:/m:x\nrubbish\n0::/user.slice/a\n";
  EXPECT_EQ(cgroup_path(text, "cpu"), "/docker/1");
  EXPECT_EQ(cgroup_path(text, "memory"), "/m:x");
  EXPECT_EQ(cgroup_path(text, ""), "/user.slice/a");
  EXPECT_EQ(cgroup_path(text, "io"), "");
  EXPECT_EQ(cgroup_path("", ""), "");
}

TEST(Pressure, WhereNothingCanBeReadNothingIsSaid) {
  const io::TempDir machine;
  const LocalPressure pressure = read_local_pressure(machine.path());
  EXPECT_FALSE(pressure.cpu || pressure.io || pressure.memory);
  EXPECT_FALSE(pressure.runnable);
  EXPECT_FALSE(pressure.throttled_share || pressure.throttled_s);
  EXPECT_GE(pressure.cores, 1U);
}

TEST(Pressure, OfTheOwnGroupWhereVersionTwoSaysIt) {
  const io::TempDir machine;
  machine.write("proc/self/cgroup", "0::/slice/job\n");
  machine.write("proc/loadavg", "1.0 1.0 1.0 7/99 5\n");
  machine.write("proc/pressure/cpu", "some avg10=90.00 avg60=0.00\n");
  machine.write("proc/pressure/io", "some avg10=80.00 avg60=0.00\n");
  machine.write("sys/fs/cgroup/slice/job/cpu.pressure", "some avg10=10.00 avg60=0.00\n");
  machine.write("sys/fs/cgroup/slice/cpu.pressure", "some avg10=20.00 avg60=0.00\n");
  machine.write("sys/fs/cgroup/slice/job/cpu.stat", "nr_periods 10\nnr_throttled 1\nthrottled_usec 1000\n");
  machine.write("sys/fs/cgroup/slice/cpu.stat", "nr_periods 10\nnr_throttled 5\nthrottled_usec 9000000\n");
  const LocalPressure pressure = read_local_pressure(machine.path());
  EXPECT_DOUBLE_EQ(pressure.cpu.value(), 0.1);
  EXPECT_DOUBLE_EQ(pressure.io.value(), 0.8) << "of the machine";
  EXPECT_FALSE(pressure.memory);
  EXPECT_EQ(pressure.runnable, 7U);
  EXPECT_DOUBLE_EQ(pressure.throttled_share.value(), 0.5) << "a limit may sit above";
  EXPECT_DOUBLE_EQ(pressure.throttled_s.value(), 9);
}

TEST(Pressure, OfVersionOneAndOfBothTogether) {
  const io::TempDir machine;
  machine.write("proc/self/cgroup", "2:cpu,cpuacct:/docker/1\n0::/\n");
  machine.write("proc/pressure/memory", "some avg10=5.00 avg60=0.00\n");
  machine.write("sys/fs/cgroup/unified/io.pressure", "some avg10=50.00 avg60=0.00\n");
  machine.write("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.stat",
                "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n");
  const LocalPressure pressure = read_local_pressure(machine.path());
  EXPECT_DOUBLE_EQ(pressure.io.value(), 0.5);
  EXPECT_DOUBLE_EQ(pressure.memory.value(), 0.05);
  EXPECT_FALSE(pressure.cpu);
  EXPECT_DOUBLE_EQ(pressure.throttled_share.value(), 0) << "that is known";
  EXPECT_DOUBLE_EQ(pressure.throttled_s.value(), 0);
}

TEST(Pressure, OfThisMachineIsInRange) {
  const LocalPressure pressure = read_local_pressure();
  for (const auto& share : {pressure.cpu, pressure.io, pressure.memory, pressure.throttled_share}) {
    EXPECT_TRUE(!share || (*share >= 0 && *share <= 1));
  }
  EXPECT_GE(pressure.runnable.value_or(1), 1U) << "this test runs";
  EXPECT_GE(read_memory_pressure(), 0);
}

}  // namespace
}  // namespace carya::loader
