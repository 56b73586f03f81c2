#include "loader/host/leak.h"

#include <gtest/gtest.h>

#include <utility>

namespace carya::loader {
namespace {

struct Counted {
  explicit Counted(int& ended) : ended_(&ended) {}
  Counted(Counted&& other) noexcept : ended_(std::exchange(other.ended_, nullptr)) { last = this; }
  ~Counted() {
    if (ended_ != nullptr) ++*ended_;
  }
  int* ended_;
  static inline Counted* last = nullptr;  // LeakSanitizer reports only what no pointer leads to
};

TEST(Leak, NeverRunsTheDestructor) {
  int ended = 0;
  {
    Counted object(ended);
    leak(std::move(object));
  }
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(Counted::last->ended_, &ended) << "what was given up is whole";
}

}  // namespace
}  // namespace carya::loader
