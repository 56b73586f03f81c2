#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

namespace carya::transforms {

/// `bytes` bytes between two pages that may not be touched: its end (or its start) lies right at one.
class GuardedBytes {
 public:
  enum class At { kEnd, kStart };

  explicit GuardedBytes(std::size_t bytes, At at = At::kEnd) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t body = (bytes + page - 1) / page * page + page;
    mapped_ = body + 2 * page;
    base_ = static_cast<std::uint8_t*>(mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + page, body, PROT_READ | PROT_WRITE), 0);
    data_ = at == At::kEnd ? base_ + page + body - bytes : base_ + page;
  }
  ~GuardedBytes() { munmap(base_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  std::uint8_t* data() const { return data_; }

 private:
  std::uint8_t* base_;
  std::uint8_t* data_;
  std::size_t mapped_;
};

/// Small numbers that are the same on every machine: a 64-bit LCG's high bits.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>(state_ >> 33);
  }
  std::int64_t below(std::int64_t bound) { return static_cast<std::int64_t>(next()) % bound; }

 private:
  std::uint64_t state_;
};

}  // namespace carya::transforms
