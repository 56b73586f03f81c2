#include "base/mapping.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>

#include "base/unique_fd.h"

namespace carya {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

UniqueFd memory_file(std::size_t bytes) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}

/// Bytes of this process's address space.
std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(getpagesize());
}

bool is_mapped(const std::byte* at) {
  unsigned char in_memory = 0;
  return mincore(const_cast<std::byte*>(at), 1, &in_memory) == 0;
}

TEST(Mapping, SharesTheFileOrKeepsWritesToItself) {
  const UniqueFd fd = memory_file(10'000);
  auto writer = Mapping::of_file(fd.get(), 10'000, Mapping::Access::kReadWrite, "x");
  auto reader = Mapping::of_file(fd.get(), 10'000, Mapping::Access::kReadOnly, "x");
  auto other = Mapping::of_file(fd.get(), 10'000, Mapping::Access::kPrivate, "x");
  ASSERT_TRUE(writer && reader && other);
  EXPECT_EQ(writer->bytes(), 10'000u);
  writer->data()[9'999] = std::byte{7};
  EXPECT_EQ(reader->data()[9'999], std::byte{7});
  other->data()[9'999] = std::byte{9};
  EXPECT_EQ(reader->data()[9'999], std::byte{7});
}

TEST(Mapping, StartsWhereAskedAndLeavesNoAddressSpaceBehind) {
  const UniqueFd fd = memory_file(3 * kMiB);
  for (const std::size_t align : {std::size_t{4096}, 2 * kMiB, 64 * kMiB}) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, 3 * kMiB - 1, 3 * kMiB}) {
      const std::size_t before = address_space();
      {
        auto mapping = Mapping::of_file(fd.get(), bytes, Mapping::Access::kReadWrite, "x", align);
        ASSERT_TRUE(mapping.has_value()) << mapping.error().message;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping->data()) % align, 0u);
        EXPECT_EQ(mapping->bytes(), bytes);
        mapping->data()[bytes - 1] = std::byte{1};
        EXPECT_LE(address_space() - before, bytes + 4096);
      }
      EXPECT_EQ(address_space(), before) << align << ", " << bytes;
    }
  }
}

TEST(Mapping, IsUnmappedOnceWhereverItMoves) {
  const UniqueFd fd = memory_file(kMiB);
  auto first = Mapping::of_file(fd.get(), kMiB, Mapping::Access::kReadWrite, "x");
  auto second = Mapping::of_file(fd.get(), kMiB, Mapping::Access::kReadWrite, "x");
  ASSERT_TRUE(first && second);
  std::byte* const a = first->data();
  std::byte* const b = second->data();
  *first = std::move(*second);
  EXPECT_FALSE(is_mapped(a));
  EXPECT_TRUE(is_mapped(b));
  EXPECT_EQ(first->data(), b);
  EXPECT_EQ(second->data(), nullptr);
  {
    const Mapping last(std::move(*first));
    EXPECT_EQ(first->bytes(), 0u);
  }
  EXPECT_FALSE(is_mapped(b));
}

TEST(Mapping, AnAbandonedOneStays) {
  const UniqueFd fd = memory_file(4 * kMiB);
  for (const std::size_t align : {std::size_t{0}, 2 * kMiB}) {
    std::byte* at = nullptr;
    {
      auto mapping = Mapping::of_file(fd.get(), 4 * kMiB, Mapping::Access::kReadWrite, "x", align);
      ASSERT_TRUE(mapping.has_value());
      at = mapping->data();
      mapping->abandon();
      EXPECT_EQ(mapping->data(), nullptr);
    }
    EXPECT_TRUE(is_mapped(at));
    munmap(at, 4 * kMiB);
  }
}

TEST(Mapping, AnonymousMemoryIsZerosAndMayBeMoreThanTheMachineHas) {
  auto mapping = Mapping::anonymous(std::size_t{1} << 42, "x");
  ASSERT_TRUE(mapping.has_value()) << mapping.error().message;
  std::byte* const far = mapping->data() + (std::size_t{1} << 41);
  EXPECT_EQ(*far, std::byte{0});
  *far = std::byte{1};
  EXPECT_EQ(*far, std::byte{1});
}

TEST(Mapping, ErrorsAreTheKernelsWithTheSubject) {
  const auto none = Mapping::of_file(-1, 4096, Mapping::Access::kReadOnly, "map a thing");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().sys_errno, EBADF);
  EXPECT_EQ(none.error().message.find("map a thing: "), 0u) << none.error().message;
  const UniqueFd sealed = memory_file(4096);
  ASSERT_EQ(fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  for (const std::size_t align : {std::size_t{0}, 2 * kMiB}) {
    const std::size_t before = address_space();
    const auto written = Mapping::of_file(sealed.get(), 4096, Mapping::Access::kReadWrite, "x", align);
    ASSERT_FALSE(written.has_value());
    EXPECT_EQ(written.error().code, Code::kPermission);
    EXPECT_EQ(address_space(), before) << "what was reserved is given back";
  }
  EXPECT_EQ(Mapping::of_file(sealed.get(), 0, Mapping::Access::kReadOnly, "x").error().sys_errno, EINVAL);
  const auto huge = Mapping::anonymous(std::size_t{1} << 60, "x");
  ASSERT_FALSE(huge.has_value());
  EXPECT_EQ(huge.error().code, Code::kExhausted);
}

}  // namespace
}  // namespace carya
