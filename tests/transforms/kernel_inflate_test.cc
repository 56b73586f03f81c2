#include "transforms/kernels/codec/inflate.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/transforms/kernel_memory.h"
#include "transforms/simd/targets.h"

namespace carya::transforms {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes deflated(const Bytes& data, int level, int strategy, int window_bits = 15) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, window_bits, 8, strategy), Z_OK);
  Bytes out(deflateBound(&stream, data.size()));
  stream.next_in = const_cast<Bytef*>(data.data());
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// What the inflater gives, in takes of at most `longest`; nothing if it refuses.
Bytes taken(const Bytes& stream, std::size_t bytes, std::size_t longest, bool& read) {
  const GuardedBytes in(stream.size() + Inflater::kSlack);
  std::copy(stream.begin(), stream.end(), in.data());
  Inflater inflater;
  Bytes out;
  read = inflater.begin({in.data(), stream.size()}, bytes, longest);
  while (read && out.size() < bytes) {
    const std::size_t count = std::min(longest, bytes - out.size());
    const std::uint8_t* some = inflater.take(count);
    read = some != nullptr;
    if (read) out.insert(out.end(), some, some + count);
  }
  return out;
}

bool reads(const Bytes& stream, const Bytes& data) {
  bool read = false;
  return taken(stream, data.size(), data.size(), read) == data && read;
}

bool zlib_reads(const Bytes& stream, const Bytes& data) {
  Bytes out(data.size());
  uLongf bytes = out.size();
  return uncompress(out.data(), &bytes, stream.data(), stream.size()) == Z_OK && bytes == out.size() &&
         out == data;
}

/// A zlib stream bit by bit.
struct Writer {
  Bytes bytes{0x78, 0x01};
  int used = 8;  // of the last byte

  void put(unsigned value, int bits) {
    for (int i = 0; i < bits; ++i) {
      if (used == 8) {
        bytes.push_back(0);
        used = 0;
      }
      bytes.back() |= static_cast<std::uint8_t>(((value >> i) & 1) << used++);
    }
  }
  void code(unsigned value, int bits) {  // Huffman codes begin with their highest bit
    for (int i = bits - 1; i >= 0; --i) put(value >> i, 1);
  }
  void fixed_block() { put(1 | 1 << 1, 3); }
  /// A block with these code lengths, each written as a code of 4 bits.
  void own_block(const std::vector<int>& symbols, const std::vector<int>& distances) {
    put(1 | 2 << 1, 3);
    put(static_cast<unsigned>(symbols.size()) - 257, 5);
    put(static_cast<unsigned>(distances.size()) - 1, 5);
    put(15, 4);
    for (int i = 0; i < 19; ++i) put(i < 3 ? 0 : 4, 3);  // 16, 17 and 18 come first
    for (const int length : symbols) code(static_cast<unsigned>(length), 4);
    for (const int length : distances) code(static_cast<unsigned>(length), 4);
  }
  Bytes with_sum(const Bytes& data) const {
    Bytes all = bytes;
    const auto sum = static_cast<std::uint32_t>(::adler32(1, data.data(), static_cast<uInt>(data.size())));
    for (int shift = 24; shift >= 0; shift -= 8) all.push_back(static_cast<std::uint8_t>(sum >> shift));
    return all;
  }
};

std::vector<int> lengths(std::size_t count, std::initializer_list<std::pair<std::size_t, int>> some) {
  std::vector<int> all(count, 0);
  for (const auto& [symbol, length] : some) all.at(symbol) = length;
  return all;
}

// Every test runs on each SIMD target.
class KernelInflate : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_simd_target(GetParam())); }
  void TearDown() override { ASSERT_TRUE(force_simd_target("")); }
};

TEST_P(KernelInflate, GivesWhatZlibPacked) {
  Noise noise(11);
  const std::vector<std::function<std::uint8_t(std::size_t)>> kinds = {
      [](std::size_t) { return std::uint8_t{0}; },
      [&](std::size_t) { return static_cast<std::uint8_t>(noise.next()); },
      [&](std::size_t i) { return static_cast<std::uint8_t>(i % 641 < 300 ? 3 : noise.below(40) == 0); },
      [&](std::size_t i) { return static_cast<std::uint8_t>(i * i / 977 + noise.below(5)); },
      [&](std::size_t) { return static_cast<std::uint8_t>(__builtin_ctz(noise.next() | 1U << 30) * 7); },
      [](std::size_t i) { return static_cast<std::uint8_t>(i % 3 * 9 + i / 1000); },
  };
  for (const std::size_t size : {1UZ, 2UZ, 3UZ, 250UZ, 259UZ, 4'000UZ, 32'770UZ, 70'001UZ, 400'003UZ}) {
    for (const auto& kind : kinds) {
      Bytes data(size);
      for (std::size_t i = 0; i < size; ++i) data[i] = kind(i);
      for (const auto& [level, strategy] : {std::pair{0, Z_DEFAULT_STRATEGY},
                                            {1, Z_DEFAULT_STRATEGY},
                                            {9, Z_DEFAULT_STRATEGY},
                                            {6, Z_HUFFMAN_ONLY},
                                            {6, Z_RLE},
                                            {6, Z_FIXED}}) {
        const Bytes stream = deflated(data, level, strategy);
        for (const std::size_t longest : {size, std::min(size, 1UZ + size / 7), std::min(size, 97UZ)}) {
          bool read = false;
          ASSERT_EQ(taken(stream, size, longest, read), data) << size << ' ' << level << ' ' << longest;
          ASSERT_TRUE(read);
        }
      }
    }
  }
}

TEST_P(KernelInflate, RefusesOtherSizesAndWhatIsCutOff) {
  Noise noise(5);
  Bytes data(900);
  for (auto& byte : data) byte = static_cast<std::uint8_t>(noise.below(6));
  Bytes stream = deflated(data, 9, Z_DEFAULT_STRATEGY);
  bool read = false;
  for (const std::size_t size : {0UZ, 1UZ, 899UZ, 901UZ, 100'000UZ}) {
    taken(stream, size, std::max(size, 1UZ), read);
    EXPECT_EQ(read, size == 0) << size;  // of no bytes nothing is asked
  }
  for (std::size_t cut = 0; cut < stream.size(); ++cut) {
    EXPECT_FALSE(reads({stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(cut)}, data)) << cut;
  }
  stream.push_back(77);  // behind the end
  EXPECT_TRUE(reads(stream, data));
}

TEST_P(KernelInflate, WhatItReadsZlibReads) {
  Noise noise(7);
  int accepted = 0;
  for (int turn = 0; turn < 40; ++turn) {
    Bytes data(static_cast<std::size_t>(1 + noise.below(700)));
    const auto values = 1 + noise.below(200);
    for (auto& byte : data) byte = static_cast<std::uint8_t>(noise.below(values));
    const Bytes stream = deflated(data, static_cast<int>(1 + noise.below(9)), turn % 5);
    for (std::size_t at = 0; at < stream.size(); ++at) {
      Bytes other = stream;
      other[at] ^= static_cast<std::uint8_t>(1 << noise.below(8));
      bool read = false;
      const Bytes out = taken(other, data.size(), data.size(), read);
      if (!read) continue;
      ++accepted;
      ASSERT_TRUE(zlib_reads(other, out)) << turn << ' ' << at;
    }
  }
  EXPECT_GT(accepted, 3);  // two bits of the first bytes say nothing of what follows
}

TEST_P(KernelInflate, RefusesCodesThatZlibRefuses) {
  // Each beside a stream that differs in just this, which both read.
  const auto check = [](const char* what, const Writer& good, const Writer& bad, const Bytes& data) {
    EXPECT_TRUE(reads(good.with_sum(data), data)) << what;
    EXPECT_TRUE(zlib_reads(good.with_sum(data), data)) << what;
    EXPECT_FALSE(reads(bad.with_sum(data), data)) << what;
    EXPECT_FALSE(zlib_reads(bad.with_sum(data), data)) << what;
  };
  const auto length_code = [](unsigned code) {
    Writer w;
    w.fixed_block();
    w.code(0x30 + 'a', 8);
    w.code(code, 8);
    w.code(0, 5);
    w.code(0, 7);
    return w;
  };
  check("length 286", length_code(0xC5), length_code(0xC6), Bytes(259, 'a'));
  check("length 287", length_code(0xC5), length_code(0xC7), Bytes(259, 'a'));

  const auto far = [](unsigned code) {
    Writer w;
    w.fixed_block();
    w.code(0x30 + 'a', 8);
    for (int i = 0; i < 101; ++i) {
      w.code(0xC5, 8);
      w.code(i < 100 ? 0 : code, 5);
    }
    w.put(0, 13);
    w.code(0, 7);
    return w;
  };
  check("distance 30", far(29), far(30), Bytes(1 + 101 * 258, 'a'));
  check("distance 31", far(29), far(31), Bytes(1 + 101 * 258, 'a'));

  const auto own = [](std::size_t symbols, std::size_t distances, int a, int end) {
    Writer w;
    w.own_block(lengths(symbols, {{'a', a}, {256, end}}), lengths(distances, {}));
    w.code(0, 1);
    w.code(1, 1);
    return w;
  };
  check("287 symbols", own(286, 1, 1, 1), own(287, 1, 1, 1), {'a'});
  check("288 symbols", own(286, 1, 1, 1), own(288, 1, 1, 1), {'a'});
  check("31 distances", own(257, 30, 1, 1), own(257, 31, 1, 1), {'a'});
  check("too few codes", own(257, 1, 1, 1), own(257, 1, 1, 2), {'a'});
  check("no end", own(257, 1, 1, 1), own(257, 1, 1, 0), {'a'});

  const auto crowded = [](int b) {
    Writer w;
    w.own_block(lengths(257, {{'a', 1}, {'b', b}, {256, 2}}), lengths(1, {}));
    w.code(0, 1);
    w.code(3, 2);
    return w;
  };
  check("too many codes", crowded(2), crowded(1), {'a'});

  const auto lone_distance = [](unsigned bit) {  // 'a', then 258 of it; the distances' only code is 0
    Writer w;
    w.own_block(lengths(286, {{'a', 1}, {256, 2}, {285, 2}}), lengths(1, {{0, 1}}));
    w.code(0, 1);
    w.code(3, 2);
    w.put(bit, 1);
    w.code(2, 2);
    return w;
  };
  check("no such distance", lone_distance(0), lone_distance(1), Bytes(259, 'a'));

  const auto repeated =
      [](unsigned zeros) {  // 'a' and the end by runs: 97 zeros, 1, 158 zeros, 1, then `zeros`
        Writer w;
        w.put(1 | 2 << 1, 3);
        w.put(0, 5);
        w.put(2, 5);
        w.put(15, 4);
        for (const unsigned length :
             {0U, 0U, 1U, 2U, 0U, 0U, 0U, 0U, 0U, 0U, 0U, 0U, 0U, 0U, 0U, 0U, 0U, 2U, 0U})
          w.put(length, 3);
        const auto run = [&](unsigned count) {
          w.code(0, 1);  // 18
          w.put(count - 11, 7);
        };
        run(97);
        w.code(3, 2);  // 1
        run(138);
        run(20);
        w.code(3, 2);
        for (unsigned i = 0; i < std::min(zeros, 3U); ++i) w.code(2, 2);  // 0
        if (zeros > 3) run(zeros);
        w.code(0, 1);
        w.code(1, 1);
        return w;
      };
  check("a run past the last code", repeated(3), repeated(11), {'a'});

  const auto back = [](unsigned distance) {
    Writer w;
    w.fixed_block();
    for (int i = 0; i < 4; ++i) w.code(0x30 + 'a', 8);
    w.code(1, 7);  // 3 bytes
    w.code(distance, 5);
    if (distance == 4) w.put(0, 1);  // 5 back
    w.code(0, 7);
    return w;
  };
  check("before the first byte", back(3), back(4), Bytes(7, 'a'));
  for (int before = 0; before < 256; ++before) {  // whatever lies there
    const Bytes data{'a', 'a', 'a', 'a', static_cast<std::uint8_t>(before), 'a', 'a'};
    ASSERT_FALSE(reads(back(4).with_sum(data), data)) << before;
  }

  Writer stored;
  stored.bytes.insert(stored.bytes.end(), {1, 1, 0, 0xFE, 0xFF, 'a'});
  Writer unlike = stored;
  unlike.bytes[5] ^= 1;
  check("a size unlike its complement", stored, unlike, {'a'});

  Writer third;
  third.put(1 | 3 << 1, 3);
  check("a block of the fourth kind", stored, third, {'a'});
}

TEST_P(KernelInflate, RefusesHeadersThatZlibRefuses) {
  const Bytes data(300, 9);
  const Bytes good = deflated(data, 6, Z_DEFAULT_STRATEGY);
  int read = 0;
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      if ((first * 256 + second) % 31 != 0 && second % 16 != 3)
        continue;  // of those with a wrong check, some
      Bytes stream = good;
      stream[0] = static_cast<std::uint8_t>(first);
      stream[1] = static_cast<std::uint8_t>(second);
      if (!reads(stream, data)) continue;
      ++read;
      ASSERT_TRUE(zlib_reads(stream, data)) << first << ' ' << second;
    }
  }
  EXPECT_EQ(read, 7 * 4);  // windows of 512 bytes and more, four levels
}

TEST_P(KernelInflate, ManyBlocksOfNothingAreLeftToZlib) {
  const auto with = [](int empty) {
    Writer w;
    for (int i = 0; i < empty; ++i) {
      w.put(1 << 1, 3);
      w.code(0, 7);
    }
    w.fixed_block();
    w.code(0x30 + 'a', 8);
    w.code(0, 7);
    return w.with_sum({'a'});
  };
  EXPECT_TRUE(reads(with(60), {'a'}));
  EXPECT_FALSE(reads(with(70), {'a'}));
  EXPECT_TRUE(zlib_reads(with(70), {'a'}));
}

TEST_P(KernelInflate, ItsChecksumIsZlibs) {
  Noise noise(3);
  Bytes data(30'000);
  for (const unsigned most : {0U, 255U}) {
    for (std::size_t size = 0; size < data.size(); size += 1 + size / 9) {
      for (auto& byte : data) byte = static_cast<std::uint8_t>(most | noise.next());
      const GuardedBytes in(size);
      std::copy_n(data.begin(), size, in.data());
      const auto before = noise.below(65521) << 16 | noise.below(65521);
      ASSERT_EQ(adler32(static_cast<std::uint32_t>(before), in.data(), size),
                ::adler32(static_cast<uLong>(before), in.data(), static_cast<uInt>(size)))
          << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, KernelInflate, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace carya::transforms
