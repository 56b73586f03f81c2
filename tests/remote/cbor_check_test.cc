#include "remote/protocol/cbor_check.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace carya::remote {
namespace {

Status check(std::initializer_list<int> bytes, const CborLimits& limits = {}) {
  std::vector<std::byte> text;
  for (const int byte : bytes) text.push_back(static_cast<std::byte>(byte));
  return check_cbor(text, limits);
}

TEST(Cbor, WellFormedItemsPass) {
  EXPECT_TRUE(check({0xa0}));
  EXPECT_TRUE(check({0xa1, 0x61, 'a', 0x82, 0x01, 0x20}));
  EXPECT_TRUE(check({0x1b, 0, 0, 0, 0, 0, 0, 1, 0}));
  EXPECT_TRUE(check({0xfb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0}));
}

TEST(Cbor, WhatIsCutLiesOrGoesOnIsRefused) {
  EXPECT_FALSE(check({}));
  EXPECT_FALSE(check({0xa1, 0x61, 'a'})) << "a value is missing";
  EXPECT_FALSE(check({0xa0, 0x00})) << "bytes after the end";
  EXPECT_FALSE(check({0x9a, 0xff, 0xff, 0xff, 0xff})) << "an array of 4 G items in no bytes";
  EXPECT_FALSE(check({0xbb, 0x80, 0, 0, 0, 0, 0, 0, 0})) << "twice its length overflows";
  EXPECT_FALSE(check({0x7b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})) << "a text past the end";
  EXPECT_FALSE(check({0x9f, 0xff})) << "indefinite";
  EXPECT_FALSE(check({0xc0, 0x00})) << "a tag";
  EXPECT_FALSE(check({0x1c})) << "reserved";
}

TEST(Cbor, DepthAndItemsAreLimited) {
  EXPECT_TRUE(check({0x81, 0x81, 0x00}, {.depth = 2}));
  EXPECT_FALSE(check({0x81, 0x81, 0x81, 0x00}, {.depth = 2}));
  EXPECT_FALSE(check({0x83, 0, 0, 0}, {.items = 3}));
  EXPECT_TRUE(check({0x83, 0, 0, 0}, {.items = 4}));
  std::vector<std::byte> deep(10'000, std::byte{0x81});
  EXPECT_FALSE(check_cbor(deep));
}

}  // namespace
}  // namespace carya::remote
