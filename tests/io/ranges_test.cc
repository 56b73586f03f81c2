#include "io/sources/ranges.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <functional>

#include "io/files/listing.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

FileMark mark_of(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return {.version = stamp_of(status).version()};
}

/// Two records of two fields in two files of 16 bytes.
struct Found {
  TempDir dir;
  std::string a = dir.write("a.db", "0123456789abcdef");
  std::string b = dir.write("b.db", "ghijklmnopqrstuv");
  std::vector<std::uint64_t> places = {1, 0, 16, 1, 4, 4, 0, 8, 3, 1, 16, 0};
  std::string names = std::string("two\0", 4) + "one ";
  std::vector<std::int64_t> labels = {7, -2};
  FoundRanges ranges{.kind = "test",
                     .paths = {a, b},
                     .marks = {mark_of(a), mark_of(b)},
                     .fields = 2,
                     .count = 2,
                     .places = places,
                     .names = names,
                     .name_bytes = 4,
                     .labels = labels};

  Error error() const {
    const auto listed = list_ranges(ranges, {});
    EXPECT_FALSE(listed);
    return listed ? Error{} : listed.error();
  }
};

TEST(Ranges, AreManifestsOfEachField) {
  const Found found;
  const auto listed = list_ranges(found.ranges, {});
  ASSERT_TRUE(listed) << listed.error().message;
  ASSERT_EQ(listed->manifests.size(), 2u);
  const RecordAddress first = listed->manifests[0]->record(0), second = listed->manifests[1]->record(0);
  EXPECT_EQ(first.path, "b.db");
  EXPECT_EQ(first.member, "two");
  EXPECT_EQ(first.offset, 0u);
  EXPECT_EQ(first.bytes, 16u);
  EXPECT_EQ(first.label, 7);
  EXPECT_EQ(second.path, "b.db");
  EXPECT_EQ(second.offset, 4u);
  EXPECT_EQ(second.bytes, 4u);
  EXPECT_EQ(listed->manifests[0]->record(1).member, "one ");
  EXPECT_EQ(listed->manifests[0]->record(1).path, "a.db");
  EXPECT_EQ(listed->manifests[1]->record(1).path, "b.db");  // fields may lie in different files
  EXPECT_EQ(listed->manifests[1]->record(1).bytes, 0u);
  EXPECT_EQ(listed->manifests[0]->file_version(1), found.ranges.marks[0].version);
  EXPECT_EQ(listed->manifests[1]->file_version(1), found.ranges.marks[1].version);
  EXPECT_EQ(listed->files->count(), 2u);
}

TEST(Ranges, ThatLieAreRefused) {
  const std::array<std::function<void(Found&)>, 15> lies = {
      [](Found& f) { f.places[0] = 2; },
      [](Found& f) { f.places[9] = 2; },
      [](Found& f) { f.places[2] = 17; },
      [](Found& f) { f.places[1] = 1; },
      [](Found& f) { f.places[4] = UINT64_MAX; },
      [](Found& f) { f.places[10] = 17; },
      [](Found& f) { f.names[0] = '\0'; },
      [](Found& f) { f.ranges.places = std::span(f.places).first(11); },
      [](Found& f) { f.ranges.names = std::span(f.names).first(7); },
      [](Found& f) { f.ranges.labels = std::span(f.labels).first(1); },
      [](Found& f) { f.ranges.count = UINT64_MAX / 2; },
      [](Found& f) { f.ranges.marks.pop_back(); },
      [](Found& f) { f.ranges.paths[0] += std::string("\0x", 2); },
      [](Found& f) { f.ranges.pins = {"v"}; },
      [](Found& f) { f.ranges.pins = {"v", "v"}; },  // of files, whose versions are their times
  };
  for (std::size_t i = 0; i < lies.size(); ++i) {
    Found found;
    lies[i](found);
    EXPECT_EQ(found.error().code, Code::kInvalidArgument) << i;
  }
  Found gone;
  gone.ranges.paths[1] = gone.dir.path("none");
  EXPECT_EQ(gone.error().code, Code::kNotFound);
  Found folder;
  folder.ranges.paths[1] = folder.dir.path();
  EXPECT_EQ(folder.error().code, Code::kInvalidArgument);
}

TEST(MarkedFiles, TellAnotherTimeSizeAndMark) {
  Found found;
  found.ranges.marks[1].at = 8;
  found.ranges.marks[1].value = 0x7675'7473'7271'706f;  // "opqrstuv"
  const auto listed = list_ranges(found.ranges, {});
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_TRUE(listed->files->has_marks());
  EXPECT_EQ(listed->files->mark(1), found.ranges.marks[1].value);
  ASSERT_TRUE(listed->files->check(0) && listed->files->check(1));

  struct stat before{};
  ASSERT_EQ(::stat(found.b.c_str(), &before), 0);
  const auto write = [&](const std::string& path, off_t at, char byte) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(fd.get(), &byte, 1, at), 1);
    const timespec times[2] = {before.st_atim, before.st_mtim};
    ASSERT_EQ(::futimens(fd.get(), times), 0);
  };
  write(found.b, 7, '!');  // beside the mark, and the time is set back: nothing tells
  EXPECT_TRUE(listed->files->check(1));
  write(found.b, 15, '!');
  const Status marked = listed->files->check(1);
  ASSERT_FALSE(marked);
  EXPECT_EQ(marked.error().code, Code::kIo);
  EXPECT_NE(marked.error().message.find("b.db: it was written to"), std::string::npos);

  const timespec past[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, found.a.c_str(), past, 0), 0);
  EXPECT_FALSE(listed->files->check(0));
  found.ranges.marks[0] = mark_of(found.a);
  EXPECT_EQ(list_ranges(found.ranges, {}).error().code, Code::kIo);  // of the other
  ASSERT_EQ(::truncate(found.a.c_str(), 8), 0);
  EXPECT_FALSE(listed->files->check(0));
}

}  // namespace
}  // namespace carya::io
