#include "loader/host/crash_notes.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/io/temp_dir.h"

namespace carya::loader {
namespace {

/// The signal that a process which notes its crashes in `path` ended by; 0: by none.
int end_of(const std::string& path, const std::string& version, const std::function<void()>& run) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr rlimit kNoCore{0, 0};
    setrlimit(RLIMIT_CORE, &kNoCore);
    for (const int number : {SIGSEGV, SIGABRT}) signal(number, SIG_DFL);  // a sanitizer's
    const auto notes = CrashNotes::open(path, version);
    if (!notes) _exit(3);
    (*notes)->catch_crashes();
    run();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

std::vector<Crash> crashes(const std::string& path, const std::string& version = "1") {
  const auto notes = CrashNotes::open(path, version);
  EXPECT_TRUE(notes) << notes.error().message;
  return notes ? (*notes)->all() : std::vector<Crash>();
}

std::uint64_t work_of_the_only_one(const std::string& path) {
  const auto found = crashes(path);
  EXPECT_EQ(found.size(), 1u);
  return found.size() == 1 ? found[0].work : UINT64_MAX;
}

void touch_nothing() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

/// Uses up any stack.
std::size_t go_down(std::size_t depth) {  // NOLINT(misc-no-recursion): what is tested
  volatile char room[1024];
  room[depth % sizeof(room)] = 1;
  return depth == SIZE_MAX ? 0 : go_down(depth + 1) + static_cast<std::size_t>(room[0]);
}

TEST(CrashNotes, AThreadThatCrashesIsBlamedOnItsWork) {
  const io::TempDir folder;
  const std::string path = folder.path("notes");
  const std::int64_t before = std::time(nullptr);
  EXPECT_EQ(end_of(path, "1",
                   [] {
                     const WorkFor other(8);
                     std::thread([] {
                       const WorkFor outer(6);
                       const WorkFor work(7);
                       touch_nothing();
                     }).join();
                   }),
            SIGSEGV);
  const auto found = crashes(path);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].work, 7u);
  EXPECT_EQ(found[0].signal, SIGSEGV);
  EXPECT_GE(found[0].at_s, before);
  EXPECT_LE(found[0].at_s, std::time(nullptr));
}

TEST(CrashNotes, AFailedCheckAndAnExceptionThatNobodyCatchesAreCrashes) {
  const io::TempDir folder;
  const std::string path = folder.path("notes");
  EXPECT_EQ(end_of(path, "1",
                   [] {
                     const WorkFor work(5);
                     CHECK(getpid() < 0);
                   }),
            SIGABRT);
  EXPECT_EQ(end_of(path, "1",
                   [] {
                     std::thread([] {
                       const WorkFor work(6);
                       throw std::runtime_error("nobody catches it");
                     }).join();
                   }),
            SIGABRT);
  const auto found = crashes(path);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].work + found[1].work, 11u);
}

TEST(CrashNotes, AStackThatIsUsedUpIsNoted) {
  const io::TempDir folder;
  const std::string path = folder.path("notes");
  EXPECT_EQ(end_of(path, "1",
                   [] {
                     std::thread([] {
                       const WorkFor work(9);
                       _exit(static_cast<int>(go_down(0)));
                     }).join();
                   }),
            SIGSEGV);
  const auto found = crashes(path);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].work, 9u);
}

TEST(CrashNotes, NoFileIsMadeWithoutACrash) {
  const io::TempDir folder;
  EXPECT_EQ(end_of(folder.path("notes"), "1", [] { const WorkFor work(7); }), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(CrashNotes, WorkThatIsOverIsNotBlamed) {
  const io::TempDir folder;
  const std::string path = folder.path("notes");
  EXPECT_EQ(end_of(path, "1",
                   [] {
                     {
                       const WorkFor work(7);
                     }
                     touch_nothing();
                   }),
            SIGSEGV);
  EXPECT_EQ(work_of_the_only_one(path), 0u);
}

TEST(CrashNotes, ASignalThatIsSentToTheProcessIsBlamedOnNobody) {
  const io::TempDir folder;
  const std::string path = folder.path("notes");
  EXPECT_EQ(end_of(path, "1",
                   [] {
                     const WorkFor work(7);
                     kill(getpid(), SIGABRT);
                     pause();
                   }),
            SIGABRT);
  EXPECT_EQ(work_of_the_only_one(path), 0u);
}

TEST(CrashNotes, OnlyRecentCrashesOfThisWorkAndVersionCount) {
  const io::TempDir folder;
  const std::string path = folder.path("notes");
  ASSERT_EQ(end_of(path, "1",
                   [] {
                     const WorkFor work(7);
                     touch_nothing();
                   }),
            SIGSEGV);
  const auto notes = CrashNotes::open(path, "1");
  ASSERT_TRUE(notes);
  const std::int64_t at = (*notes)->all().at(0).at_s;
  EXPECT_TRUE((*notes)->recent(7, at));
  EXPECT_TRUE((*notes)->recent(7, at + Crash::kRecentS));
  EXPECT_FALSE((*notes)->recent(7, at + Crash::kRecentS + 1));
  EXPECT_FALSE((*notes)->recent(7, at - 1)) << "a clock that was set back bars nobody for ever";
  EXPECT_FALSE((*notes)->recent(8, at));
  EXPECT_FALSE((*notes)->recent(0, at));
  EXPECT_TRUE(crashes(path, "2").empty());
}

TEST(CrashNotes, TheLatestOnesAreKept) {
  const io::TempDir folder;
  const std::string path = folder.path("notes");
  for (std::uint64_t work = 1; work <= 130; ++work)
    ASSERT_EQ(end_of(path, "1",
                     [work] {
                       const WorkFor one(work);
                       touch_nothing();
                     }),
              SIGSEGV);
  EXPECT_EQ(std::filesystem::file_size(path), CrashNotes::kBytes);
  const auto found = crashes(path);
  ASSERT_EQ(found.size(), 128u);
  for (const std::uint64_t gone : {1, 2})
    EXPECT_TRUE(std::ranges::none_of(found, [&](const Crash& crash) { return crash.work == gone; }));
}

TEST(CrashNotes, WhatIsNoEntryIsNone) {
  const io::TempDir folder;
  const std::string path = folder.path("notes");
  for (const std::string& text : {std::string(), std::string("CRSH"), std::string(100'000, 'x'),
                                  std::string(CrashNotes::kBytes, '\0')}) {
    std::ofstream(path, std::ios::trunc) << text;
    EXPECT_TRUE(crashes(path).empty());
  }
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/null", path);
  EXPECT_FALSE(CrashNotes::open(path, "1"));
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(CrashNotes::open(path, "1"));
}

}  // namespace
}  // namespace carya::loader
