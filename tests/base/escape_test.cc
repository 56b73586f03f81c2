#include "base/escape.h"

#include <gtest/gtest.h>

namespace carya {
namespace {

TEST(Escaped, TextStaysAndWhatSteersATerminalShows) {
  EXPECT_EQ(escaped("worker 1: K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x98\x80 \\x"),
            "worker 1: K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x98\x80 \\x");
  EXPECT_EQ(escaped("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
  EXPECT_EQ(escaped("a\nb\tc\rd\x7f"), "a\\x0ab\\x09c\\x0dd\\x7f");
  EXPECT_EQ(escaped("a\nb\tc", "\n"), "a\nb\\x09c");
  EXPECT_EQ(escaped("\xc2\x9b"
                    "2J"),
            "\\x9b2J")
      << "CSI of C1, as UTF-8";
  EXPECT_EQ(escaped("\xe2\x80\xae"
                    "abc"),
            "\\u202eabc")
      << "text from right to left";
  EXPECT_EQ(escaped(std::string("\0", 1)), "\\x00");
}

TEST(Escaped, BytesThatAreNoUtf8Show) {
  EXPECT_EQ(escaped("\x9b"
                    "2J"),
            "\\x9b2J")
      << "CSI of C1, as a byte";
  EXPECT_EQ(escaped("\xc3"), "\\xc3") << "cut";
  EXPECT_EQ(escaped("\xc0\x9b"), "\\xc0\\x9b") << "too long a form";
  EXPECT_EQ(escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(escaped("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

}  // namespace
}  // namespace carya
