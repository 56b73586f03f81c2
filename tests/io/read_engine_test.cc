// One conformance suite for every engine, buffered and direct. Faults are real ones: files of /proc that
// answer EIO and short reads, a process without descriptors, a process that may not use io_uring
// (read_engine_refused_test.cc).
#include "io/read/read_engine.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "base/checked.h"
#include "tests/io/stuck_folder.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

struct Case {
  const char* name;
  ReadEngineOptions::Kind kind;
  bool direct;
};

struct FreeAligned {
  void operator()(std::byte* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<std::byte, FreeAligned>;

constexpr std::byte kUntouched{0xa5};

/// A destination as ReadRequest::dest wants it, with a guard page's worth of known bytes behind.
Buffer make_buffer(std::uint64_t length) {
  const std::size_t room = align_up<std::uint64_t>(length + 1, 4096) + 4096;
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(4096, room)));
  std::fill_n(buffer.get(), room, kUntouched);
  return buffer;
}

class ReadEngineTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { open({}); }

  void open(ReadEngineOptions options) {
    options.kind = GetParam().kind;
    options.direct = GetParam().direct;
    auto created = ReadEngine::create(options);
    ASSERT_TRUE(created) << created.error().message;
    engine_ = std::move(*created);
    root_ = engine_->add_root(dir_.path()).value();
  }

  /// Submits one read and waits for its completion (at most 20 s).
  ReadCompletion read(const ReadRequest& request) {
    engine_->submit({&request, 1});
    return next();
  }

  ReadCompletion next() {
    ReadCompletion completion;
    for (int i = 0; i < 200; ++i) {
      if (engine_->poll({&completion, 1}, 100) == 1) return completion;
    }
    ADD_FAILURE() << "no completion";
    return completion;
  }

  ReadCompletion read_file(const char* path, std::uint64_t length, std::byte* dest) {
    return read({.token = 7, .root = root_, .path = path, .length = length, .dest = dest});
  }

  std::string text(const Buffer& buffer, std::size_t bytes) const {
    return std::string(reinterpret_cast<const char*>(buffer.get()), bytes);
  }

  TempDir dir_;
  std::unique_ptr<ReadEngine> engine_;
  int root_ = -1;
};

TEST_P(ReadEngineTest, ReadsAWholeFileByName) {
  for (const std::size_t bytes : {1u, 100u, 4095u, 4096u, 4097u, 110'000u, 1'048'576u, 3'000'001u}) {
    const std::string content = noise(bytes, 1);
    dir_.write("a/file", content);
    const Buffer buffer = make_buffer(bytes);
    const ReadCompletion done = read_file("a/file", bytes, buffer.get());
    EXPECT_TRUE(done.ok) << bytes;
    EXPECT_EQ(done.token, 7u);
    EXPECT_EQ(done.bytes, static_cast<std::int64_t>(bytes));
    EXPECT_GT(done.latency_ns, 0);
    EXPECT_EQ(text(buffer, bytes), content);
    EXPECT_EQ(buffer.get()[align_up<std::uint64_t>(bytes + 1, 4096)], kUntouched);
  }
}

TEST_P(ReadEngineTest, WritesNoFurtherThanTheContractSays) {
  dir_.write("file", noise(15'000, 1));
  const Buffer buffer = make_buffer(100);
  EXPECT_FALSE(read_file("file", 100, buffer.get()).ok);
  EXPECT_EQ(buffer.get()[GetParam().direct ? 4096 : 101], kUntouched);
}

TEST_P(ReadEngineTest, AnEmptyFileIsRead) {
  dir_.write("empty", "");
  const Buffer buffer = make_buffer(0);
  const ReadCompletion done = read_file("empty", 0, buffer.get());
  EXPECT_TRUE(done.ok);
  EXPECT_EQ(done.bytes, 0);
}

TEST_P(ReadEngineTest, TellsThatAFileGrew) {
  for (const std::size_t bytes : {0u, 10u, 4096u, 9999u}) {
    dir_.write("file", noise(bytes + 5000, 1));
    const Buffer buffer = make_buffer(bytes);
    const ReadCompletion done = read_file("file", bytes, buffer.get());
    EXPECT_FALSE(done.ok);
    EXPECT_EQ(done.code, Code::kIo);
    EXPECT_EQ(done.sys_errno, 0);
    EXPECT_EQ(done.bytes, static_cast<std::int64_t>(bytes) + 1);
  }
}

TEST_P(ReadEngineTest, TellsThatAFileShrank) {
  for (const std::size_t bytes : {0u, 10u, 4096u, 9999u}) {
    dir_.write("file", noise(bytes, 1));
    const Buffer buffer = make_buffer(20'000);
    const ReadCompletion done = read_file("file", 20'000, buffer.get());
    EXPECT_FALSE(done.ok);
    EXPECT_EQ(done.code, Code::kIo);
    EXPECT_EQ(done.sys_errno, 0);
    EXPECT_EQ(done.bytes, static_cast<std::int64_t>(bytes));
  }
}

TEST_P(ReadEngineTest, TellsThatAFileVanished) {
  const Buffer buffer = make_buffer(10);
  for (const char* path : {"none", "none/below", ""}) {
    const ReadCompletion done = read_file(path, 10, buffer.get());
    EXPECT_FALSE(done.ok);
    EXPECT_EQ(done.code, Code::kNotFound) << path;
    EXPECT_EQ(done.sys_errno, ENOENT);
  }
}

TEST_P(ReadEngineTest, TellsThatAPathIsTooLong) {
  const Buffer buffer = make_buffer(10);
  const std::string path(5000, 'x');
  const ReadCompletion done = read_file(path.c_str(), 10, buffer.get());
  EXPECT_FALSE(done.ok);
  EXPECT_EQ(done.sys_errno, ENAMETOOLONG);
}

TEST_P(ReadEngineTest, TellsThatPermissionIsMissing) {
  ::chmod(dir_.write("secret", "x").c_str(), 0);
  ::chmod(dir_.path().c_str(), 0755);
  const uid_t self = ::geteuid();
  if (self == 0) {  // root may read everything
    ASSERT_EQ(::seteuid(65534), 0);
  }
  open({});
  const Buffer buffer = make_buffer(1);
  const ReadCompletion done = read_file("secret", 1, buffer.get());
  if (self == 0) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_FALSE(done.ok);
  EXPECT_EQ(done.code, Code::kPermission);
  EXPECT_EQ(done.sys_errno, EACCES);
}

TEST_P(ReadEngineTest, ADirectoryIsNoFile) {
  dir_.write("folder/file", "x");
  const Buffer buffer = make_buffer(10);
  const ReadCompletion done = read_file("folder", 10, buffer.get());
  EXPECT_FALSE(done.ok);
  EXPECT_EQ(done.code, Code::kIo);
  EXPECT_EQ(done.sys_errno, EISDIR);
}

TEST_P(ReadEngineTest, AFileIsNoDirectory) {
  dir_.write("file", "x");
  const Buffer buffer = make_buffer(10);
  EXPECT_EQ(read_file("file/below", 10, buffer.get()).sys_errno, ENOTDIR);
}

TEST_P(ReadEngineTest, AFailingDeviceIsAnIoError) {
  // The first page of a process is never mapped: the kernel answers EIO.
  const Buffer buffer = make_buffer(100);
  const ReadCompletion done = read_file("/proc/self/mem", 100, buffer.get());
  EXPECT_FALSE(done.ok);
  EXPECT_EQ(done.code, Code::kIo);
  EXPECT_EQ(done.sys_errno, EIO);
}

TEST_P(ReadEngineTest, ShortReadsAreContinued) {
  // Files of /proc give a page or so per read.
  std::ifstream stream("/proc/kallsyms", std::ios::binary);
  std::string content(60'000, '\0');
  stream.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (stream.gcount() != static_cast<std::streamsize>(content.size())) GTEST_SKIP() << "no /proc/kallsyms";
  const int file = engine_->add_file(root_, "/proc/kallsyms").value();
  const Buffer buffer = make_buffer(content.size());
  const ReadCompletion done =
      read({.token = 1, .file = file, .length = content.size(), .dest = buffer.get()});
  EXPECT_TRUE(done.ok);
  EXPECT_EQ(done.bytes, static_cast<std::int64_t>(content.size()));
  EXPECT_EQ(text(buffer, content.size()), content);
}

TEST_P(ReadEngineTest, ReadsRangesOfAFile) {
  const std::string content = noise(1'000'003, 3);
  dir_.write("shard.tar", content);
  const int file = engine_->add_file(root_, "shard.tar").value();
  struct Range {
    std::uint64_t offset, length;
  };
  for (const auto& [offset, length] : {Range{0, 10},
                                       {512, 100'000},
                                       {1536, 4096},
                                       {4096, 4096},
                                       {777, 5000},
                                       {999'936, 67},
                                       {1'000'002, 1},
                                       {1'000'003, 0},
                                       {0, 1'000'003}}) {
    const Buffer buffer = make_buffer(length);
    const ReadCompletion done =
        read({.token = 2, .file = file, .offset = offset, .length = length, .dest = buffer.get()});
    EXPECT_TRUE(done.ok) << offset << "+" << length;
    EXPECT_EQ(done.bytes, static_cast<std::int64_t>(length));
    EXPECT_EQ(text(buffer, length), content.substr(offset, length));
  }
}

TEST_P(ReadEngineTest, ARangePastTheEndIsShort) {
  dir_.write("shard.tar", noise(10'000, 3));
  const int file = engine_->add_file(root_, "shard.tar").value();
  const Buffer buffer = make_buffer(8192);
  ReadCompletion done = read({.file = file, .offset = 8192, .length = 8192, .dest = buffer.get()});
  EXPECT_FALSE(done.ok);
  EXPECT_EQ(done.code, Code::kIo);
  EXPECT_EQ(done.sys_errno, 0);
  EXPECT_EQ(done.bytes, 10'000 - 8192);
  done = read({.file = file, .offset = 1 << 20, .length = 10, .dest = buffer.get()});
  EXPECT_FALSE(done.ok);
  EXPECT_EQ(done.bytes, 0);
}

TEST_P(ReadEngineTest, MoreFilesThanTheRingsTableHolds) {
  std::vector<int> files;
  for (int i = 0; i < 300; ++i) {
    const std::string name = std::string("shard") + std::to_string(i);
    dir_.write(name, noise(600, static_cast<unsigned>(i)));
    files.push_back(engine_->add_file(root_, name).value());
  }
  for (int i = 0; i < 300; ++i) {
    const Buffer buffer = make_buffer(600);
    EXPECT_TRUE(read({.file = files[i], .length = 600, .dest = buffer.get()}).ok);
    EXPECT_EQ(text(buffer, 600), noise(600, static_cast<unsigned>(i)));
  }
}

// Reads that take milliseconds, so that the owner waits before they end. Where nobody tells it, it takes half a minute.
/// Until the thread has slept for ten looks in a row: it waits, and not for a lock in passing.
void wait_until_asleep(pid_t thread) {
  const std::string path = fmt::format("/proc/self/task/{}/stat", thread);
  for (int asleep = 0; asleep < 10; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    std::ifstream file(path);
    const std::string stat{std::istreambuf_iterator<char>(file), {}};
    asleep = stat.find(") S ") != std::string::npos ? asleep + 1 : 0;
  }
}

TEST_P(ReadEngineTest, WhoWaitsIsToldWhenAReadEnds) {
  constexpr std::chrono::seconds kPatience{20};
  StuckFolder stuck(noise(5000, 2));
  if (!stuck.mounted()) GTEST_SKIP() << "the system lets us mount nothing";
  open({.depth = 16});
  const int root = engine_->add_root(stuck.path()).value();
  const Buffer buffer = make_buffer(5000);
  const ReadRequest request{.root = root, .path = "stuck.jpg", .length = 5000, .dest = buffer.get()};
  engine_->submit({&request, 1});
  std::thread storage([&, waiting = ::gettid()] {
    stuck.wait_for_read();
    wait_until_asleep(waiting);
    stuck.release();
  });
  ReadCompletion completion;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(engine_->poll({&completion, 1}, std::chrono::milliseconds(kPatience).count()), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience) << "found by its own looking, untold";
  EXPECT_TRUE(completion.ok);
  storage.join();
}

TEST_P(ReadEngineTest, AHandleOfARemovedFileNamesTheNextOne) {
  dir_.write("first", "first");
  dir_.write("second", "other");
  const int first = engine_->add_file(root_, "first").value();
  engine_->remove_file(first);
  const int second = engine_->add_file(root_, "second").value();
  EXPECT_EQ(first, second);
  const Buffer buffer = make_buffer(5);
  EXPECT_TRUE(read({.file = second, .length = 5, .dest = buffer.get()}).ok);
  EXPECT_EQ(text(buffer, 5), "other");
}

TEST_P(ReadEngineTest, RemovedRootsCloseAndTheirHandlesServeAgain) {
  dir_.write("old/file", "abc");
  const int first = engine_->add_root(dir_.path("old")).value();
  const int file = engine_->add_file(first, "file").value();
  engine_->remove_root(first);
  std::filesystem::rename(dir_.path("old"), dir_.path("aside"));
  dir_.write("old/file", "xyz");
  EXPECT_EQ(engine_->add_root(dir_.path("old")).value(), first);
  const Buffer buffer = make_buffer(3);
  EXPECT_TRUE(read({.root = first, .path = "file", .length = 3, .dest = buffer.get()}).ok);
  EXPECT_EQ(text(buffer, 3), "xyz") << "the root is the folder that has the name now";
  EXPECT_TRUE(read({.file = file, .length = 3, .dest = buffer.get()}).ok);
  EXPECT_EQ(text(buffer, 3), "abc") << "a file stays when its root goes";
}

TEST_P(ReadEngineTest, TellsTheStampOfAFile) {
  const std::string path = dir_.write("file", "abc");
  const int first = engine_->add_file(root_, "file").value();
  const SourceStamp before = engine_->file_stamp(first);
  EXPECT_EQ(before.bytes, 3u);
  EXPECT_EQ(engine_->file_stamp_now(first).value(), before);
  dir_.write("file", "abcde");  // the same file, written anew
  EXPECT_EQ(engine_->file_stamp_now(first).value().bytes, 5u);
  EXPECT_EQ(engine_->file_stamp(first), before) << "of when it was added";
  std::filesystem::remove(path);
  dir_.write("other", "keeps the inode's number");
  dir_.write("file", "abcd");
  const SourceStamp after = engine_->file_stamp(engine_->add_file(root_, "file").value());
  EXPECT_EQ(after.bytes, 4u);
  EXPECT_NE(before, after);
}

TEST_P(ReadEngineTest, FilesOfAUserSpaceFileSystemAreReadWhole) {
  const std::string content = noise(5000, 2);
  StuckFolder folder(content, 3600);
  if (!folder.mounted()) GTEST_SKIP() << "the system lets us mount nothing";
  folder.release();
  open({.depth = 16});
  const int root = engine_->add_root(folder.path()).value();
  const int file = engine_->add_file(root, "stuck.jpg").value();
  for (int i = 0; i < 200; ++i) {
    const Buffer buffer = make_buffer(5000);
    const ReadCompletion done =
        read(i % 2 == 0 ? ReadRequest{.root = root, .path = "stuck.jpg", .length = 5000, .dest = buffer.get()}
                        : ReadRequest{.file = file, .length = 5000, .dest = buffer.get()});
    ASSERT_TRUE(done.ok) << i << ": " << done.bytes;
    ASSERT_EQ(std::memcmp(buffer.get(), content.data(), 5000), 0) << i;
  }
}

TEST_P(ReadEngineTest, WidenedItReadsOnWhileSomeWait) {
  StuckFolder stuck(noise(5000, 2));
  if (!stuck.mounted()) GTEST_SKIP() << "the system lets us mount nothing";
  open({.depth = 16, .pread_threads = 1, .io_wq_workers_max = 1});
  const int root = engine_->add_root(stuck.path()).value();
  const Buffer waiting = make_buffer(5000), buffer = make_buffer(3);
  const ReadRequest stuck_one{
      .token = 1, .root = root, .path = "stuck.jpg", .length = 5000, .dest = waiting.get()};
  engine_->submit({&stuck_one, 1});
  ReadCompletion none;
  EXPECT_EQ(engine_->poll({&none, 1}, 50), 0u);
  stuck.wait_for_read();
  dir_.write("file", "abc");
  const ReadRequest request{.token = 7, .root = root_, .path = "file", .length = 3, .dest = buffer.get()};
  engine_->submit({&request, 1});
  if (engine_->name().starts_with("pread")) {
    EXPECT_EQ(engine_->poll({&none, 1}, 50), 0u) << "its only thread waits";
  }
  engine_->widen(2);
  engine_->widen(1);  // never narrower
  EXPECT_GE(engine_->lanes(), 2u);
  EXPECT_EQ(next().token, 7u);
  stuck.release();
  EXPECT_EQ(next().token, 1u);
}

TEST_P(ReadEngineTest, ReadsThatAreStuckCompleteOnceAndTheOthersGoOnWithout) {
  StuckFolder stuck(noise(5000, 2));
  if (!stuck.mounted()) GTEST_SKIP() << "the system lets us mount nothing";
  open({.depth = 16, .pread_threads = 2});
  const int root = engine_->add_root(stuck.path()).value();
  std::vector<Buffer> buffers;
  for (std::uint64_t token = 0; token < 4; ++token) {  // more than there are threads
    buffers.push_back(make_buffer(5000));
    const ReadRequest request{
        .token = token, .root = root, .path = "stuck.jpg", .length = 5000, .dest = buffers[token].get()};
    engine_->submit({&request, 1});
  }
  ReadCompletion none;
  EXPECT_EQ(engine_->poll({&none, 1}, 50), 0u);
  stuck.wait_for_read();
  std::map<std::uint64_t, int> seen;
  for (std::uint64_t token = 0; token < 4; ++token) engine_->cancel(token);
  engine_->cancel(99);
  dir_.write("file", "abc");
  const Buffer buffer = make_buffer(3);
  const ReadRequest request{.token = 7, .root = root_, .path = "file", .length = 3, .dest = buffer.get()};
  engine_->submit({&request, 1});
  while (seen[7] == 0) {
    const ReadCompletion done = next();
    ++seen[done.token];
    if (done.token == 7) {
      EXPECT_TRUE(done.ok);
    }
    if (HasFailure()) return;
  }
  EXPECT_EQ(engine_->room(), 16u) << "those that are stuck take no place";
  stuck.release();
  const auto all = [&] {
    int count = 0;
    for (const auto& [token, times] : seen) count += times;
    return count;
  };
  while (all() < 5 && !HasFailure()) ++seen[next().token];
  for (const std::uint64_t token : {0, 1, 2, 3, 7}) EXPECT_EQ(seen[token], 1) << token;
}

TEST_P(ReadEngineTest, WrongRootsAndFilesAreErrors) {
  EXPECT_EQ(engine_->add_root(dir_.path("none")).error().code, Code::kNotFound);
  EXPECT_EQ(engine_->add_file(root_, "none").error().code, Code::kNotFound);
  dir_.write("folder/file", "x");
  EXPECT_EQ(engine_->add_file(root_, "folder").error().code, Code::kIo);
}

TEST_P(ReadEngineTest, TheEmptyRootIsTheWorkingDirectory) {
  const int here = engine_->add_root("").value();
  const std::string path = dir_.write("file", "abc");
  const Buffer buffer = make_buffer(3);
  EXPECT_TRUE(read({.root = here, .path = path.c_str(), .length = 3, .dest = buffer.get()}).ok);
}

TEST_P(ReadEngineTest, ResolveFlagsKeepReadsBeneathTheRoot) {
  open({.resolve = RESOLVE_BENEATH});
  dir_.write("inside", "abc");
  ::symlink("/etc/hostname", dir_.path("out").c_str());
  const Buffer buffer = make_buffer(3);
  EXPECT_TRUE(read_file("inside", 3, buffer.get()).ok);
  for (const char* path : {"out", "../x", "/etc/hostname"}) {
    const ReadCompletion done = read_file(path, 3, buffer.get());
    EXPECT_FALSE(done.ok);
    EXPECT_EQ(done.sys_errno, EXDEV) << path;
  }
}

TEST_P(ReadEngineTest, ManyInFlightEachComeBackOnce) {
  open({.depth = 32});
  constexpr int kFiles = 50;
  std::vector<std::string> names, contents;
  for (int i = 0; i < kFiles; ++i) {
    names.push_back(std::string("f") + std::to_string(i));
    contents.push_back(noise(1000 + 997 * static_cast<unsigned>(i), static_cast<unsigned>(i)));
    if (i % 7 != 3) dir_.write(names.back(), contents.back());  // every seventh does not exist
  }
  constexpr std::uint64_t kReads = 5000;
  std::map<std::uint64_t, Buffer> flying;
  std::uint64_t submitted = 0, finished = 0;
  std::vector<ReadCompletion> done(8);
  while (finished < kReads) {
    EXPECT_EQ(engine_->room(), 32 - flying.size());
    std::vector<ReadRequest> batch;
    while (submitted < kReads && batch.size() < engine_->room()) {
      const std::size_t i = submitted % kFiles;
      const Buffer& buffer = flying[submitted] = make_buffer(contents[i].size());
      batch.push_back({.token = submitted++,
                       .root = root_,
                       .path = names[i].c_str(),
                       .length = contents[i].size(),
                       .dest = buffer.get()});
    }
    engine_->submit(batch);
    const std::size_t count = engine_->poll(done, 1000);
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = done[k].token % kFiles;
      ASSERT_EQ(flying.count(done[k].token), 1u);
      EXPECT_EQ(done[k].ok, i % 7 != 3);
      if (done[k].ok) {
        EXPECT_EQ(text(flying[done[k].token], contents[i].size()), contents[i]);
      } else {
        EXPECT_EQ(done[k].code, Code::kNotFound);
      }
      flying.erase(done[k].token);
      ++finished;
    }
  }
  EXPECT_EQ(engine_->room(), 32u);
}

TEST_P(ReadEngineTest, LeavesNoDescriptorOpen) {
  const auto count = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  dir_.write("file", noise(5000, 1));
  const auto before = count();
  const Buffer buffer = make_buffer(5000);
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(read_file("file", 5000, buffer.get()).ok);
    EXPECT_FALSE(read_file("file", 5001, buffer.get()).ok);
    EXPECT_FALSE(read_file("none", 5000, buffer.get()).ok);
  }
  EXPECT_EQ(count(), before);
}

TEST_P(ReadEngineTest, ADeletedFileIsReallyGoneAfterItsRead) {
  // The place in the ring's table must not keep the file: a file system could not be unmounted.
  const std::string path = dir_.write("file", noise(5000, 1));
  const Buffer buffer = make_buffer(5000);
  EXPECT_TRUE(read_file("file", 5000, buffer.get()).ok);
  const int lease = ::open(path.c_str(), O_RDWR);
  ASSERT_GE(lease, 0);
  // A write lease is refused with EAGAIN while anyone else has the file open.
  int status = -1;
  for (int i = 0; i < 100 && status != 0; ++i) {
    status = ::fcntl(lease, F_SETLEASE, F_WRLCK);
    if (status != 0) engine_->poll({}, 10);
  }
  EXPECT_EQ(status, 0) << errno;
  ::close(lease);
}

TEST_P(ReadEngineTest, PollWithoutWorkReturnsAtOnce) {
  ReadCompletion done;
  EXPECT_EQ(engine_->poll({&done, 1}, 0), 0u);
  EXPECT_EQ(engine_->poll({&done, 1}, 1), 0u);
}

TEST_P(ReadEngineTest, WakeEndsAPollFromAnotherThread) {
  for (int i = 0; i < 20; ++i) {
    std::thread waker([&] {
      if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      engine_->wake();
    });
    ReadCompletion done;
    // Without the wake-up this takes ten minutes, and the test's own limit ends it.
    EXPECT_EQ(engine_->poll({&done, 1}, 600'000), 0u);
    waker.join();
  }
}

TEST_P(ReadEngineTest, ManyWakesDoNotHideCompletions) {
  dir_.write("file", noise(5000, 1));
  const Buffer buffer = make_buffer(5000);
  for (int i = 0; i < 100; ++i) {
    engine_->wake();
    engine_->wake();
    EXPECT_TRUE(read_file("file", 5000, buffer.get()).ok);
  }
}

TEST_P(ReadEngineTest, DestructionWithReadsInFlightWaitsForThem) {
  dir_.write("file", noise(200'000, 1));
  for (int i = 0; i < 20; ++i) {
    open({.depth = 16});
    std::vector<Buffer> buffers;
    std::vector<ReadRequest> batch;
    for (int k = 0; k < 16; ++k) {
      buffers.push_back(make_buffer(200'000));
      batch.push_back({.root = root_, .path = "file", .length = 200'000, .dest = buffers.back().get()});
    }
    engine_->submit(batch);
    if (i % 2 == 0) engine_->poll({}, 0);
    engine_.reset();
    for (Buffer& buffer : buffers) std::fill_n(buffer.get(), 200'000, kUntouched);
    for (Buffer& buffer : buffers) EXPECT_EQ(buffer.get()[100'000], kUntouched);
  }
}

TEST_P(ReadEngineTest, AFifoInPlaceOfAFileDoesNotHangIt) {
  ASSERT_EQ(::mkfifo(dir_.path("fifo").c_str(), 0600), 0);
  const Buffer buffer = make_buffer(10);
  const ReadRequest request{.root = root_, .path = "fifo", .length = 10, .dest = buffer.get()};
  engine_->submit({&request, 1});
  ReadCompletion done;
  // It may end with an error or wait for a writer; the engine must still be usable and end.
  engine_->poll({&done, 1}, 20);
  dir_.write("file", "abc");
  const bool still_reads = [&] {
    const Buffer other = make_buffer(3);
    const ReadRequest second{.token = 9, .root = root_, .path = "file", .length = 3, .dest = other.get()};
    engine_->submit({&second, 1});
    for (int i = 0; i < 200; ++i) {
      if (engine_->poll({&done, 1}, 100) == 1 && done.token == 9) return done.ok;
    }
    return false;
  }();
  EXPECT_TRUE(still_reads);
  engine_.reset();
}

TEST_P(ReadEngineTest, DescriptorsRunOutAndComeBack) {
  dir_.write("file", noise(5000, 1));
  const Buffer buffer = make_buffer(5000);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const ReadCompletion short_of = read_file("file", 5001, buffer.get());  // the slow path needs a descriptor
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(short_of.ok);
  EXPECT_EQ(short_of.code, Code::kExhausted);
  EXPECT_EQ(short_of.sys_errno, EMFILE);
  EXPECT_TRUE(read_file("file", 5000, buffer.get()).ok);
}

TEST(ReadEngine, DepthIsBounded) {
  for (const auto kind :
       {ReadEngineOptions::Kind::kUring, ReadEngineOptions::Kind::kPread, ReadEngineOptions::Kind::kAuto}) {
    for (const std::uint32_t depth : {0u, 1u << 20}) {
      const auto engine = ReadEngine::create({.kind = kind, .depth = depth});
      ASSERT_FALSE(engine);
      EXPECT_EQ(engine.error().code, Code::kInvalidArgument);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, ReadEngineTest,
                         testing::Values(Case{"uring", ReadEngineOptions::Kind::kUring, false},
                                         Case{"uring_direct", ReadEngineOptions::Kind::kUring, true},
                                         Case{"pread", ReadEngineOptions::Kind::kPread, false},
                                         Case{"pread_direct", ReadEngineOptions::Kind::kPread, true}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace carya::io
