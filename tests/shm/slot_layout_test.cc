#include "shm/slot_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <random>

#include "shm/ring_format.h"

namespace carya::shm {
namespace {

constexpr std::uint64_t kTwoMiB = 2u << 20;

std::vector<std::byte> written(const SlotLayout& layout) {
  std::vector<std::byte> slot(layout.slot_bytes());
  layout.write(slot.data());
  return slot;
}

SlotLayout two_tensors() {
  auto layout = SlotLayout::create(
      {SlotTensor{"image", DType::kFloat32, {2, 3, 5, 7}, 0}, SlotTensor{"label", DType::kInt64, {2}, 0}});
  EXPECT_TRUE(layout.has_value());
  return *layout;
}

TEST(SlotLayout, AlignsTensorsTo64AndTheSlotTo2MiB) {
  auto layout = SlotLayout::create(
      {SlotTensor{"a", DType::kUint8, {5}, 0}, SlotTensor{"b", DType::kFloat64, {3}, 0},
       SlotTensor{"empty", DType::kUint8, {0, 7}, 0}, SlotTensor{"scalar", DType::kInt16, {}, 0}});
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->tensors()[0].offset, 4096u);
  EXPECT_EQ(layout->tensors()[1].offset, 4096u + 64);
  EXPECT_EQ(layout->tensors()[2].offset, 4096u + 128);
  EXPECT_EQ(layout->tensors()[3].offset, 4096u + 128);
  EXPECT_EQ(layout->tensors()[3].bytes(), 2u);
  EXPECT_EQ(layout->slot_bytes(), kTwoMiB);
}

TEST(SlotLayout, ManyTensorsPushTheDataBack) {
  std::vector<SlotTensor> tensors;
  for (int i = 0; i < 64; ++i) tensors.push_back({std::to_string(i), DType::kUint8, {1}, 0});
  auto layout = SlotLayout::create(tensors);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->tensors()[0].offset, 12288u);  // 64 + 64 * 152 = 9792, up to the next 4096
  tensors.push_back({"one too many", DType::kUint8, {1}, 0});
  EXPECT_EQ(SlotLayout::create(tensors).error().code, Code::kInvalidArgument);
}

TEST(SlotLayout, WhatIsWrittenIsRead) {
  const SlotLayout layout = two_tensors();
  const auto slot = written(layout);
  const auto read = SlotLayout::parse(slot.data(), slot.size());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_EQ(read->tensors().size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read->tensors()[i].name, layout.tensors()[i].name);
    EXPECT_EQ(read->tensors()[i].dtype, layout.tensors()[i].dtype);
    EXPECT_EQ(read->tensors()[i].shape, layout.tensors()[i].shape);
    EXPECT_EQ(read->tensors()[i].offset, layout.tensors()[i].offset);
  }
  EXPECT_EQ(read->slot_bytes(), layout.slot_bytes());
}

TEST(SlotLayout, RefusesWhatCannotBe) {
  const auto code = [](std::vector<SlotTensor> tensors) {
    const auto layout = SlotLayout::create(std::move(tensors));
    return layout ? std::optional<Code>() : layout.error().code;
  };
  EXPECT_EQ(code({{"", DType::kUint8, {1}, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{std::string(64, 'n'), DType::kUint8, {1}, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{std::string(63, 'n'), DType::kUint8, {1}, 0}}), std::nullopt);
  EXPECT_EQ(code({{std::string("a\0b", 3), DType::kUint8, {1}, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{"a", static_cast<DType>(99), {1}, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{"a", DType::kUint8, std::vector<std::uint64_t>(9, 1), 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{"a", DType::kUint8, {1}, 0}, {"a", DType::kUint8, {1}, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{"a", DType::kFloat64, {1ull << 32, 1ull << 32}, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{"a", DType::kUint8, {(1ull << 48) + 1}, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{"a", DType::kUint8, {1ull << 47}, 0}, {"b", DType::kUint8, {1ull << 47}, 0}}),
            Code::kInvalidArgument);
}

/// The table with one field replaced.
template <typename T>
Code parse_with(std::size_t offset, T value) {
  auto slot = written(two_tensors());
  std::memcpy(slot.data() + offset, &value, sizeof(value));
  const auto layout = SlotLayout::parse(slot.data(), slot.size());
  return layout ? Code::kClosed : layout.error().code;  // kClosed stands for "was accepted"
}

TEST(SlotLayout, ForeignTablesAreChecked) {
  constexpr std::size_t first = 64;
  constexpr std::size_t second = 64 + 152;
  EXPECT_EQ(parse_with<std::uint8_t>(0, 'X'), Code::kCorrupt);
  EXPECT_EQ(parse_with<std::uint32_t>(8, 2), Code::kCorrupt) << "version";
  EXPECT_EQ(parse_with<std::uint32_t>(12, 65), Code::kCorrupt) << "count";
  EXPECT_EQ(parse_with<std::uint32_t>(12, ~0u), Code::kCorrupt) << "count";
  EXPECT_EQ(parse_with<std::uint32_t>(12, 3), Code::kCorrupt) << "an empty third entry";
  EXPECT_EQ(parse_with<std::uint64_t>(16, kTwoMiB * 2), Code::kCorrupt) << "slot bytes";
  EXPECT_EQ(parse_with<std::uint64_t>(24, 64), Code::kCorrupt) << "data offset";
  EXPECT_EQ(parse_with<std::uint8_t>(first + 64, 0), Code::kCorrupt) << "dtype";
  EXPECT_EQ(parse_with<std::uint8_t>(first + 65, 9), Code::kCorrupt) << "dimensions";
  EXPECT_EQ(parse_with<std::uint64_t>(first + 72, 0), Code::kCorrupt) << "an offset inside the table";
  EXPECT_EQ(parse_with<std::uint64_t>(first + 72, 4097), Code::kCorrupt) << "an offset not aligned";
  EXPECT_EQ(parse_with<std::uint64_t>(first + 72, kTwoMiB), Code::kCorrupt) << "an offset at the end";
  EXPECT_EQ(parse_with<std::uint64_t>(first + 72, ~0ull << 6), Code::kCorrupt) << "an offset that wraps";
  EXPECT_EQ(parse_with<std::uint64_t>(first + 80, 1), Code::kCorrupt) << "bytes";
  EXPECT_EQ(parse_with<std::uint64_t>(first + 88, 1ull << 62), Code::kCorrupt) << "extent";
  EXPECT_EQ(parse_with<std::uint64_t>(second + 72, 4096), Code::kCorrupt) << "overlap";
  EXPECT_EQ(parse_with<char>(second, '\0'), Code::kCorrupt) << "no name";
  EXPECT_EQ((parse_with<std::array<char, 6>>(second, {"image"})), Code::kCorrupt) << "a name twice";
  EXPECT_EQ(parse_with<char>(second, 'L'), Code::kClosed) << "another name is another table, and good";
}

TEST(SlotLayout, NoDamageOfATableGetsPastItsSlot) {
  const auto good = written(two_tensors());
  auto slot = good;
  for (std::uint32_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    std::copy_n(good.begin(), 400, slot.begin());
    for (int i = 0; i < 3; ++i) slot[random() % 400] = static_cast<std::byte>(random());
    const auto layout = SlotLayout::parse(slot.data(), slot.size());
    if (!layout) continue;
    for (const SlotTensor& tensor : layout->tensors()) {
      ASSERT_LE(tensor.bytes(), slot.size()) << "seed " << seed;
      ASSERT_LE(tensor.offset + tensor.bytes(), slot.size()) << "seed " << seed;
      ASSERT_GE(tensor.offset, 4096u) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace carya::shm
