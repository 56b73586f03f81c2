#include "base/philox.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace carya {
namespace {

// Source: Salmon et al. 2011, section 3.3 and Random123's philox.h: multipliers, and the Weyl sequence of the
// key.
constexpr std::uint32_t kMultiply0 = 0xD2511F53;
constexpr std::uint32_t kMultiply1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

constexpr std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

}  // namespace

Philox4x32::Counter Philox4x32::block(Counter counter, Key key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiply0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiply1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

Philox4x32::Key op_key(std::uint64_t seed, std::string_view op_name, std::uint32_t name_occurrence) {
  Hasher128 hasher;
  hasher.update(seed);
  hasher.update(op_name);
  hasher.update(std::uint64_t{name_occurrence});
  const std::uint64_t digest = hasher.digest().low;
  return {low(digest), high(digest)};
}

SampleRng::SampleRng(Philox4x32::Key key, std::uint64_t epoch, std::uint64_t record,
                     std::uint64_t occurrence) {
  const Philox4x32::Counter fold =
      Philox4x32::block({low(epoch), high(epoch), low(occurrence), high(occurrence)}, key);
  key_ = {fold[0], fold[1]};
  counter_ = {low(record), high(record), fold[2], 0};
}

std::uint32_t SampleRng::next_u32() {
  if (used_ == 4) {
    words_ = Philox4x32::block(counter_, key_);
    ++counter_[3];
    used_ = 0;
  }
  return words_[used_++];
}

std::uint64_t SampleRng::next_u64() {
  const std::uint64_t first = next_u32();
  return first | (std::uint64_t{next_u32()} << 32);
}

double SampleRng::next_double() {
  return static_cast<double>(next_u64() >> 11) * 0x1p-53;
}

std::uint64_t SampleRng::next_below(std::uint64_t bound) {
  CHECK(bound >= 1);
  // Source: Lemire, "Fast random integer generation in an interval", ACM TOMACS 2019.
  __extension__ using Wide = unsigned __int128;
  Wide product = Wide{next_u64()} * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;  // 2^64 mod bound: the surplus that would bias
    while (static_cast<std::uint64_t>(product) < threshold) product = Wide{next_u64()} * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

EpochGroups::EpochGroups(std::vector<Part> parts) : parts_(std::move(parts)) {
  CHECK(!parts_.empty() && parts_.front().from == 0);
  for (std::size_t i = 0; i < parts_.size(); ++i)
    CHECK(parts_[i].epochs >= 1 && (i == 0 || parts_[i].from > parts_[i - 1].from));
}

bool EpochGroups::each_alone() const {
  return std::ranges::all_of(parts_, [](const Part& part) { return part.epochs == 1; });
}

std::size_t EpochGroups::part_at(std::uint64_t epoch) const {
  const auto behind = std::ranges::upper_bound(parts_, epoch, {}, &Part::from);
  return static_cast<std::size_t>(behind - parts_.begin()) - 1;
}

std::uint64_t EpochGroups::first(std::uint64_t epoch) const {
  const Part& part = parts_[part_at(epoch)];
  return epoch - (epoch - part.from) % part.epochs;
}

std::uint64_t EpochGroups::end(std::uint64_t epoch) const {
  const std::size_t at = part_at(epoch);
  const std::uint64_t begin = first(epoch), length = parts_[at].epochs;
  const std::uint64_t own = length > kNoEnd - begin ? kNoEnd : begin + length;
  return at + 1 < parts_.size() ? std::min(own, parts_[at + 1].from) : own;
}

}  // namespace carya
