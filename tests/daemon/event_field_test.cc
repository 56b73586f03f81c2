#include "loader/program/event_field.h"

#include <gtest/gtest.h>

namespace carya::loader {
namespace {

TEST(EventField, TextIsShownAsItIs) {
  EXPECT_EQ(field("n", 3), " n=3");
  EXPECT_EQ(field("job", std::string("exp7")), " job=exp7");
  EXPECT_EQ(field("job", std::string()), " job=\"\"");
  EXPECT_EQ(field("why", std::string("no \"x\" here")), R"( why="no \"x\" here")");
}

TEST(EventField, NoValueBeginsAnotherField) {
  EXPECT_EQ(field("job", std::string("a\" uid=0 b=\"")), R"( job="a\" uid=0 b=\"")");
  EXPECT_EQ(field("job", std::string("a\\\" uid=0")), R"( job="a\\\" uid=0")");
  EXPECT_EQ(field("job", std::string("a\nb")), R"( job=a\x0ab)");
  EXPECT_EQ(field("job", std::string("a b\n\x1b")), R"( job="a b\x0a\x1b")");
}

}  // namespace
}  // namespace carya::loader
