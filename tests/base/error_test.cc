#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/unique_fd.h"

#include <fcntl.h>

namespace carya {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0)
    return fail(Code::kInvalidArgument, "half: wanted an even number, got " + std::to_string(number));
  return number / 2;
}

Result<int> quarter(int number) {
  ASSIGN(const int first, half(number));
  ASSIGN(const int second, half(first));
  return second;
}

Status both_even(int a, int b) {
  TRY(half(a));
  TRY(half(b));
  return {};
}

TEST(Error, AssignAndTryReturnTheFirstError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "half: wanted an even number, got 3");
  EXPECT_TRUE(both_even(2, 4));
  EXPECT_EQ(both_even(2, 5).error().code, Code::kInvalidArgument);
}

TEST(Error, CodeFollowsFromErrno) {
  EXPECT_EQ(fail_errno("open x", ENOENT).error().code, Code::kNotFound);
  EXPECT_EQ(fail_errno("open x", EACCES).error().code, Code::kPermission);
  EXPECT_EQ(fail_errno("open x", EMFILE).error().code, Code::kExhausted);
  EXPECT_EQ(fail_errno("read x", EIO).error().code, Code::kIo);
  EXPECT_EQ(fail_errno("read x", EIO).error().sys_errno, EIO);
  EXPECT_EQ(fail_errno("open x", ENOENT).error().message.rfind("open x: ", 0), 0u);
}

TEST(Error, ALimitOfTheSystemIsSaidWithItsCure) {
  EXPECT_NE(fail_errno("open x", EMFILE)
                .error()
                .message.find("; raise this process's limit of open files (ulimit -n"),
            std::string::npos);
  EXPECT_NE(fail_errno("open x", ENFILE).error().message.find("; raise the machine's limit"),
            std::string::npos);
  EXPECT_NE(fail_errno("write x", ENOSPC).error().message.find("; make room there"), std::string::npos);
  EXPECT_EQ(fail_errno("open x", ENOENT).error().message.find("; "), std::string::npos)
      << "the subject knows";
}

TEST(Error, EveryCodeHasItsOwnName) {
  for (int code = 0; code <= static_cast<int>(Code::kForked); ++code) {
    EXPECT_NE(code_name(static_cast<Code>(code)), "unknown");
    for (int other = 0; other < code; ++other)
      EXPECT_NE(code_name(static_cast<Code>(code)), code_name(static_cast<Code>(other)));
  }
}

TEST(ErrorDeathTest, CheckNamesTheCondition) {
  EXPECT_DEATH(CHECK(1 + 1 == 3), "1 \\+ 1 == 3");
}

TEST(Checked, SaysWhenAResultDoesNotFit) {
  EXPECT_EQ(checked_add<std::uint64_t>(1, 2), 3u);
  EXPECT_FALSE(checked_add<std::uint64_t>(~std::uint64_t{0}, 1));
  EXPECT_FALSE(checked_mul<std::uint32_t>(65'536, 65'536));
  EXPECT_FALSE(checked_mul<std::int64_t>(std::int64_t{1} << 62, 2));
  EXPECT_EQ(align_up<std::uint64_t>(0, 64), 0u);
  EXPECT_EQ(align_up<std::uint64_t>(65, 64), 128u);
}

TEST(DType, NamesAndNumbersGoBothWays) {
  for (int number = 0; number < 256; ++number) {
    const DType dtype = static_cast<DType>(number);
    if (dtype_bytes(dtype) == 0) {
      EXPECT_EQ(dtype_name(dtype), "invalid");
      continue;
    }
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(static_cast<int>(DType::kFloat32), 11);  // part of the slot format
  EXPECT_EQ(static_cast<int>(DType::kBfloat16), 13);
  EXPECT_EQ(dtype_bytes(DType::kFloat16), 2u);
  EXPECT_EQ(dtype_bytes(DType::kBfloat16), 2u);
  EXPECT_FALSE(dtype_from_name("invalid"));
}

// The empty text has the answer published with xxHash 0.8; the others are pinned, since every fingerprint
// rests on them.
TEST(Hash, IsXxh3AndKeepsItsOutput) {
  EXPECT_EQ(hash64(std::string_view("")), 0x2D06800538D394C2u);
  EXPECT_EQ(hash64(std::string_view("carya")), 0xc67d5114e24ba5a3u);
  EXPECT_NE(hash64("carya", 1), hash64("carya", 0));
  Hasher128 hasher;
  hasher.update(std::string_view("carya"));
  hasher.update(std::uint64_t{7});
  EXPECT_EQ(hasher.digest().hex(), "c9555d6d117651c71f19a654b2efdb96");
}

TEST(Hash, TextsAreDelimited) {
  Hasher128 first, second;
  first.update(std::string_view("ab"));
  first.update(std::string_view("c"));
  second.update(std::string_view("a"));
  second.update(std::string_view("bc"));
  EXPECT_NE(first.digest(), second.digest());
}

TEST(UniqueFd, ClosesOnceAndMoves) {
  const int number = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(number, 0);
  UniqueFd first(number);
  UniqueFd second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(second.get(), number);
  second.reset();
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace carya
