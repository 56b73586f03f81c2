#include "io/sources/tar_scanner.h"

#include <cstdlib>

#include "tests/io/tar_maker.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

struct Scan {
  std::vector<TarMember> members;
  std::optional<Error> error;
  bool ends_with_mark = false;
};

Scan scan(const std::string& tar) {
  Scan result;
  TarScanner scanner("t.tar", tar.size(), [&tar](std::uint64_t offset, std::span<std::byte> out) -> Status {
    EXPECT_LE(offset, tar.size());
    EXPECT_LE(out.size(), tar.size() - offset);
    std::memcpy(out.data(), tar.data() + offset, out.size());
    return {};
  });
  for (;;) {
    TarMember member;
    const auto more = scanner.next(&member);
    if (!more) {
      result.error = more.error();
      return result;
    }
    if (!*more) {
      result.ends_with_mark = scanner.ends_with_mark();
      return result;
    }
    EXPECT_LE(member.offset, tar.size());
    EXPECT_LE(member.bytes, tar.size() - member.offset);
    result.members.push_back(member);
  }
}

std::string content(const std::string& tar, const TarMember& member) {
  return tar.substr(member.offset, member.bytes);
}

TEST(TarScanner, ReadsEveryDialect) {
  const std::string long_name = std::string(150, 'd') + "/" + std::string(120, 'f') + ".jpg";
  TarMaker maker;
  maker.file("plain.jpg", "plain");
  maker.header({.name = "old.jpg", .size = 3, .type = '\0', .magic = ""}).payload("old");
  maker.header({.name = "name.jpg", .size = 6, .prefix = "pre/fix"}).payload("prefix");
  maker.header({.name = "gnu.jpg", .size = 3, .magic = std::string("ustar  \0", 8), .prefix = "times"})
      .payload("gnu");
  maker.extension('L', long_name + '\0').file("short", "long");
  maker.extension('K', "target").header({.name = "link", .type = '2'});
  maker.extension('x', TarMaker::pax("mtime", "1.5") + TarMaker::pax("path", "pax/\xc3\xa9.jpg"))
      .file("ascii", "pax");
  maker.extension('x', TarMaker::pax("size", "7"))
      .header({.name = "sized.jpg", .size = 0})
      .payload("seven77");
  maker.header({.name = "base.jpg", .size = 4, .base256 = true}).payload("base");
  maker.header({.name = "dir/", .type = '5'});
  maker.header({.name = "olddir/", .type = '\0', .magic = ""});
  maker.header({.name = "hard", .size = 99, .type = '1'});
  maker.header({.name = "contiguous", .size = 1, .type = '7'}).payload("c");
  maker.file("empty", "");
  const std::string tar = maker.finish();
  const Scan result = scan(tar);
  ASSERT_FALSE(result.error) << result.error->message;
  const std::vector<std::pair<std::string, std::string>> expected = {{"plain.jpg", "plain"},
                                                                     {"old.jpg", "old"},
                                                                     {"pre/fix/name.jpg", "prefix"},
                                                                     {"gnu.jpg", "gnu"},
                                                                     {long_name, "long"},
                                                                     {"pax/\xc3\xa9.jpg", "pax"},
                                                                     {"sized.jpg", "seven77"},
                                                                     {"base.jpg", "base"},
                                                                     {"contiguous", "c"},
                                                                     {"empty", ""}};
  ASSERT_EQ(result.members.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(result.members[i].name, expected[i].first);
    EXPECT_EQ(content(tar, result.members[i]), expected[i].second);
  }
}

TEST(TarScanner, GlobalPaxHeadersHold) {
  TarMaker maker;
  maker.extension('g', TarMaker::pax("comment", "x")).file("a", "1").file("b", "2");
  EXPECT_EQ(scan(maker.finish()).members.size(), 2u);
}

TEST(TarScanner, EndsAtAZeroBlockOrAtTheEndOfTheFile) {
  TarMaker maker;
  maker.file("a", "1");
  EXPECT_EQ(scan(maker.bytes).members.size(), 1u);
  EXPECT_EQ(scan(maker.bytes.substr(0, 513)).members.size(), 1u);  // only padding is missing
  EXPECT_TRUE(scan("").members.empty());
  EXPECT_FALSE(scan("").error);
}

TEST(TarScanner, GoesOnBehindAnEndMark) {
  TarMaker one, two;
  one.file("a", "1");
  two.file("b", "2").file("c", "3");
  const Scan both = scan(one.finish() + two.finish());
  ASSERT_FALSE(both.error);
  ASSERT_EQ(both.members.size(), 3u);
  EXPECT_EQ(both.members[2].name, "c");
  for (const std::string& rest : {std::string("anything"), std::string(700, 'x')}) {
    const Scan found = scan(one.finish() + rest);
    ASSERT_FALSE(found.error);
    ASSERT_EQ(found.members.size(), 2u);
    EXPECT_EQ(found.members[1].name, "@" + std::to_string(one.finish().size()) + ".(cut off or no tar)");
  }
  EXPECT_EQ(scan(one.finish() + std::string(10'000, '\0')).members.size(), 1u);
}

TEST(TarScanner, AMissingEndMarkIsKnown) {
  TarMaker maker;
  maker.file("a.jpg", "a").file("b.jpg", "b");
  EXPECT_TRUE(scan(maker.finish()).ends_with_mark);
  EXPECT_TRUE(scan(maker.finish() + maker.finish()).ends_with_mark);
  EXPECT_FALSE(scan(maker.bytes).ends_with_mark);
  EXPECT_FALSE(scan(maker.bytes.substr(0, maker.bytes.size() / 2)).ends_with_mark)
      << "cut between two members";
  EXPECT_FALSE(scan(maker.finish() + maker.bytes).ends_with_mark);
}

TEST(TarScanner, WhatIsCutOffIsAMemberWithoutAnExtensionThatIsWanted) {
  TarMaker maker;
  maker.file("a.jpg", std::string(1000, 'a')).file("b.jpg", std::string(1000, 'b'));
  const std::size_t second = maker.bytes.size() / 2;
  const Scan payload = scan(maker.bytes.substr(0, second + 512 + 999));
  ASSERT_FALSE(payload.error);
  ASSERT_EQ(payload.members.size(), 2u);
  EXPECT_EQ(payload.members[1].name, "b.jpg.(cut off or no tar)");
  EXPECT_EQ(payload.members[1].bytes, 0u);
  const Scan header = scan(maker.bytes.substr(0, second + 100));
  ASSERT_FALSE(header.error);
  ASSERT_EQ(header.members.size(), 2u);
  EXPECT_EQ(header.members[1].name, "@" + std::to_string(second) + ".(cut off or no tar)");
  EXPECT_NE(scan(maker.bytes.substr(0, 100)).error->message.find("truncated"), std::string::npos);
}

TEST(TarScanner, EverySizeThatLiesIsFound) {
  for (const std::uint64_t size : {std::uint64_t{1024}, std::uint64_t{1} << 40, ~std::uint64_t{0},
                                   std::uint64_t{1} << 62, (std::uint64_t{1} << 63) - 1}) {
    TarMaker maker;
    maker.header({.name = "a", .size = size, .base256 = true}).payload("x");
    TarMaker pax;
    pax.extension('x', TarMaker::pax("size", std::to_string(size))).file("a", "x");
    for (const Scan& result : {scan(maker.bytes), scan(pax.bytes)}) {
      const bool refused = result.error && result.error->code == Code::kCorrupt;
      const bool lost = result.members.size() == 1 && result.members[0].bytes == 0;
      EXPECT_NE(refused, lost) << size;
    }
    TarMaker name;
    name.header({.name = "a", .size = size, .type = 'L', .base256 = true}).payload("x");
    EXPECT_EQ(scan(name.bytes).error->code, Code::kCorrupt);
  }
  TarMaker huge;  // the bytes are there, but no name is that long
  huge.extension('L', std::string((1 << 20) + 1, 'n')).file("a", "x");
  EXPECT_EQ(scan(huge.finish()).error->code, Code::kCorrupt);
}

TEST(TarScanner, BadPaxRecordsAreRefused) {
  for (const char* record :
       {"x path=a\n", "99 path=a\n", "9 path=ab", "10 pathab12\n", "3 \n", "12 size=1x22\n", "0 path=a\n",
        "99999999999999999999 path=a\n", "11 size=-1\n"}) {
    TarMaker maker;
    maker.extension('x', record).file("a", "x");
    const Scan result = scan(maker.finish());
    ASSERT_TRUE(result.error) << record;
    EXPECT_EQ(result.error->code, Code::kCorrupt);
  }
}

TEST(TarScanner, CompressedTarsAreNamedWithTheFix) {
  for (const auto& [start, word] : {std::pair<std::string, const char*>{"\x1f\x8b\x08", "gunzip"},
                                    {"\x28\xb5\x2f\xfd", "unzstd"},
                                    {"\xfd"
                                     "7zXZ",
                                     "unxz"},
                                    {"BZh9", "bunzip2"}}) {
    const Scan result = scan(start + std::string(1000, 'x'));
    ASSERT_TRUE(result.error);
    EXPECT_EQ(result.error->code, Code::kUnsupported);
    EXPECT_NE(result.error->message.find(word), std::string::npos);
  }
}

TEST(TarScanner, SparseMembersAreNamed) {
  TarMaker old;
  old.header({.name = "s", .size = 1, .type = 'S'}).payload("x");
  EXPECT_EQ(scan(old.finish()).error->code, Code::kUnsupported);
  TarMaker pax;
  pax.extension('x', TarMaker::pax("GNU.sparse.major", "1")).file("s", "x");
  EXPECT_EQ(scan(pax.finish()).error->code, Code::kUnsupported);
}

TEST(TarScanner, AnyDamageIsAnErrorOrFewerMembersNeverACrash) {
  TarMaker maker;
  maker.extension('L', std::string(200, 'n') + '\0').file("a", "12345");
  maker.extension('x', TarMaker::pax("path", "b.jpg") + TarMaker::pax("size", "3"))
      .header({.name = "b", .size = 3})
      .payload("abc");
  maker.file("c", std::string(700, 'c'));
  const std::string tar = maker.finish();
  for (std::size_t at = 0; at < tar.size(); ++at) {
    for (const char flip : {'\x01', '\x80', '\x7f'}) {
      std::string wrong = tar;
      wrong[at] = static_cast<char>(wrong[at] ^ flip);
      const Scan result = scan(wrong);       // checks offsets and reads itself
      EXPECT_LE(result.members.size(), 4u);  // what follows a false end mark is one
    }
  }
  for (std::size_t length = 0; length < tar.size(); ++length) scan(tar.substr(0, length));
}

TEST(TarScanner, RealTarsAreReadOrRefused) {
  const char* data = std::getenv("CARYA_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "CARYA_TEST_DATA is not set";
  std::size_t read = 0, refused = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(std::string(data) + "/formats")) {
    const std::string name = item.path().filename().string();
    if (!name.ends_with(".tar") && !name.ends_with(".tar.gz")) continue;
    std::ifstream stream(item.path(), std::ios::binary);
    const std::string tar(std::istreambuf_iterator<char>(stream), {});
    const Scan result = scan(tar);
    const bool is_tar =
        tar.size() > 512 && !tar.starts_with("\x1f\x8b");  // the small ones are Git LFS pointers
    EXPECT_EQ(!result.error, is_tar) << item.path();
    (is_tar ? read : refused) += 1;
    EXPECT_EQ(result.members.empty(), !is_tar) << item.path();
  }
  EXPECT_GE(read, 5u);
  EXPECT_GE(refused, 4u);
}

}  // namespace
}  // namespace carya::io
