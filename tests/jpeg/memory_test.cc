// Nothing outside input and output is touched, and nothing is allocated once the scratch memory has grown.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/amount.h"
#include "tests/jpeg/compare_test_lib.h"
#include "transforms/simd/targets.h"

namespace {
std::atomic<long> allocations{0};
}

#ifndef CARYA_SANITIZED
// Not inlined, or GCC takes malloc and delete for a mismatch.

[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t align) {
  ++allocations;
  const std::size_t line = static_cast<std::size_t>(align);
  if (void* memory = std::aligned_alloc(line, (size + line - 1) / line * line)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace carya::jpeg {
namespace {

using testing::Bytes;
using testing::Recipe;

// `size` bytes that end where no page follows.
class Guarded {
 public:
  explicit Guarded(std::size_t size) : size_(size) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (size + page - 1) / page * page + 2 * page;
    base_ = static_cast<std::uint8_t*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_, page, PROT_NONE), 0);
    EXPECT_EQ(mprotect(base_ + mapped_ - page, page, PROT_NONE), 0);
    data_ = base_ + mapped_ - page - size;
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  std::uint8_t* data() { return data_; }
  std::span<const std::uint8_t> bytes() const { return {data_, size_}; }

 private:
  std::size_t size_;
  std::size_t mapped_;
  std::uint8_t* base_;
  std::uint8_t* data_;
};

class Memory : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_simd_target(GetParam())); }
  void TearDown() override { force_simd_target(""); }
  Decoder decoder_;
};

TEST_P(Memory, StaysInsideGuardPages) {
  std::mt19937_64 random(51);
  for (int i = 0; i < (long_tests() ? 5000 : 300); ++i) {
    const Recipe recipe = testing::random_recipe(random, 120);
    Bytes jpeg = testing::encode(recipe, random);
    if (decoder_.recognise(jpeg) != Ordinary::kOrdinary) continue;
    if (i % 2 == 0) testing::mutate_scan(jpeg, decoder_.header().scan_begin, random);
    if (decoder_.recognise(jpeg) != Ordinary::kOrdinary) continue;
    Guarded input(jpeg.size());
    std::memcpy(input.data(), jpeg.data(), jpeg.size());
    const Region region = testing::random_region(recipe.width, recipe.height, random);
    const Mode mode = i % 3 == 0 ? Mode::kGray : Mode::kRgb;
    const std::size_t stride = static_cast<std::size_t>(region.width * channels(mode));
    Guarded output(stride * static_cast<std::size_t>(region.height));
    Index index(8);
    static_cast<void>(decoder_.decode(input.bytes(), region, mode, output.data(), stride, nullptr, &index));
    static_cast<void>(decoder_.decode(input.bytes(), region, mode, output.data(), stride, &index, &index));
  }
}

TEST_P(Memory, NothingIsAllocatedTheSecondTime) {
#ifdef CARYA_SANITIZED
  GTEST_SKIP() << "the heap belongs to a sanitizer";
#endif
  std::mt19937_64 random(52);
  std::vector<Bytes> files;
  for (int i = 0; i < 40; ++i) files.push_back(testing::encode(testing::random_recipe(random, 200), random));
  Bytes out(200 * 200 * 3);
  Index index(8);
  Index rows(0);
  long before = 0;
  for (int round = 0; round < 3; ++round) {
    if (round == 2) before = allocations;
    std::mt19937_64 same_regions(53);
    for (const Bytes& jpeg : files) {
      if (decoder_.recognise(jpeg) != Ordinary::kOrdinary) continue;
      const int width = decoder_.header().width;
      const int height = decoder_.header().height;
      const Region region = testing::random_region(width, height, same_regions);
      const std::size_t stride = static_cast<std::size_t>(width) * 3;
      static_cast<void>(
          decoder_.decode(jpeg, {0, 0, width, height}, Mode::kRgb, out.data(), stride, nullptr, &index));
      static_cast<void>(decoder_.decode(jpeg, region, Mode::kRgb, out.data(), stride, &index, &rows));
      static_cast<void>(decoder_.decode(jpeg, region, Mode::kGray, out.data(), stride, &rows));
    }
  }
  EXPECT_EQ(allocations - before, 0);
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Memory, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace carya::jpeg
