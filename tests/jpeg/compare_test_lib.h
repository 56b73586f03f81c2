#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/jpeg/turbo_test_lib.h"
#include "transforms/jpeg/decoder.h"
#include "transforms/jpeg/index.h"

namespace carya::jpeg::testing {

Region whole(const Picture& picture);
Region random_region(int width, int height, std::mt19937_64& random);

/// A decode with guard bytes after every line.
struct Own {
  Outcome outcome = Outcome::kDone;
  Bytes pixels;
  bool guards_kept = true;
};
Own decode(Decoder& decoder, const Bytes& jpeg, const Region& region, Mode mode, const Index* index = nullptr,
           Index* made = nullptr);

/// The region's pixels of a whole picture.
Bytes crop(const Picture& picture, const Region& region);

/// Whether our decode of the region is done and gives exactly these pixels.
::testing::AssertionResult same_pixels(Decoder& decoder, const Bytes& jpeg, const Picture& picture,
                                       const Region& region, Mode mode, const Index* index = nullptr);

/// Changes a valid JPEG somewhere behind its header: bytes, bits, cut ends, doubled or lost restart markers.
void mutate_scan(Bytes& jpeg, std::size_t scan_begin, std::mt19937_64& random);

}  // namespace carya::jpeg::testing
