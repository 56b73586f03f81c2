#include "transforms/text/bpe.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <queue>

namespace carya::text {
namespace {

constexpr std::uint64_t kFree = ~std::uint64_t{0};
constexpr unsigned kIdBits = 21, kRankBits = 22;
constexpr std::size_t kShortMergeMax = 128;  // longer pretokens are merged by a heap
constexpr std::uint64_t kTextMax = 1 << 30;

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a ^ 0x9E3779B97F4A7C15) * (b ^ 0xD1B54A32D192ED03);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = bytes.size();
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, bytes.data(), 8);
    hash = mixed(hash, eight);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, bytes.data(), bytes.size());
  return mixed(hash, rest);
}

std::uint64_t pair_of(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << kIdBits | right;
}

std::size_t slot_of(std::uint64_t pair, unsigned shift) {
  return static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15) >> shift);
}

}  // namespace

Result<std::shared_ptr<const Bpe>> Bpe::create(const BpeVocabulary& vocabulary) {
  std::shared_ptr<Bpe> bpe(new Bpe());
  bpe->pretokens_ = vocabulary.pretokens;
  bpe->byte_ids_ = vocabulary.byte_ids;
  for (std::size_t byte = 0; byte < 256; ++byte)
    if (vocabulary.byte_ids[byte] >= kIdsMax)
      return fail(Code::kInvalidArgument, fmt::format("vocabulary: byte {}: got id {}; ids are below {}",
                                                      byte, vocabulary.byte_ids[byte], kIdsMax));
  TRY(bpe->add_merges(vocabulary.merges));
  TRY(bpe->add_whole(vocabulary));
  bpe->byte_ranks_.resize(std::size_t{1} << 16);
  for (std::size_t pair = 0; pair < bpe->byte_ranks_.size(); ++pair)
    bpe->byte_ranks_[pair] = bpe->rank(bpe->byte_ids_[pair >> 8], bpe->byte_ids_[pair & 255]);
  return bpe;
}

Status Bpe::add_merges(std::span<const BpeMerge> merges) {
  if (merges.size() > kRanksMax)
    return fail(Code::kInvalidArgument, fmt::format("merges: got {}; at most {}", merges.size(), kRanksMax));
  const std::size_t slots = std::bit_ceil(2 * merges.size() + 2);
  pairs_.assign(slots, kFree);
  pair_shift_ = 64 - static_cast<unsigned>(std::countr_zero(slots));
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const BpeMerge& one = merges[i];
    if (std::max({one.left, one.right, one.result}) >= kIdsMax || one.rank >= kRanksMax)
      return fail(Code::kInvalidArgument,
                  fmt::format("merges: {}: got {} + {} -> {} of rank {}; ids are below {}, ranks below {}", i,
                              one.left, one.right, one.result, one.rank, kIdsMax, kRanksMax));
    if (rank(one.left, one.right) != kNone)
      return fail(Code::kInvalidArgument,
                  fmt::format("merges: {}: {} + {} is there twice", i, one.left, one.right));
    if (results_.size() <= one.rank) results_.resize(one.rank + std::size_t{1}, kNone);
    if (results_[one.rank] != kNone && results_[one.rank] != one.result)
      return fail(Code::kInvalidArgument, fmt::format("merges: {}: rank {} has two results", i, one.rank));
    results_[one.rank] = one.result;
    std::size_t slot = slot_of(pair_of(one.left, one.right), pair_shift_);
    while (pairs_[slot] != kFree) slot = (slot + 1) & (slots - 1);
    pairs_[slot] = pair_of(one.left, one.right) << kRankBits | one.rank;
  }
  return {};
}

Status Bpe::add_whole(const BpeVocabulary& vocabulary) {
  const std::size_t count = vocabulary.whole_ids.size();
  if (vocabulary.whole_ends.size() != count || count > kIdsMax)
    return fail(Code::kInvalidArgument,
                fmt::format("tokens: got {} ids and {} ends", count, vocabulary.whole_ends.size()));
  if (count == 0) return {};
  whole_bytes_.assign(vocabulary.whole.begin(), vocabulary.whole.end());
  wholes_.assign(std::bit_ceil(2 * count), {});
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t end = vocabulary.whole_ends[i];
    if (end <= begin || end > whole_bytes_.size() || end - begin > kTextMax ||
        vocabulary.whole_ids[i] >= kIdsMax)
      return fail(Code::kInvalidArgument,
                  fmt::format("tokens: {}: got id {}, and bytes {} to {} of {}", i, vocabulary.whole_ids[i],
                              begin, end, whole_bytes_.size()));
    std::size_t slot = hash_of(vocabulary.whole.substr(begin, end - begin)) & (wholes_.size() - 1);
    while (wholes_[slot].id != kNone) slot = (slot + 1) & (wholes_.size() - 1);
    wholes_[slot] = {begin, static_cast<std::uint32_t>(end - begin), vocabulary.whole_ids[i]};
    begin = end;
  }
  return {};
}

std::uint32_t Bpe::rank(std::uint32_t left, std::uint32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t slot = slot_of(pair, pair_shift_);; slot = (slot + 1) & (pairs_.size() - 1)) {
    const std::uint64_t one = pairs_[slot];
    if (one >> kRankBits == pair && one != kFree) return static_cast<std::uint32_t>(one & kRanksMax);
    if (one == kFree) return kNone;
  }
}

std::uint32_t Bpe::find_whole(std::string_view pretoken) const {
  if (wholes_.empty()) return kNone;
  for (std::size_t slot = hash_of(pretoken) & (wholes_.size() - 1);;
       slot = (slot + 1) & (wholes_.size() - 1)) {
    const Whole& one = wholes_[slot];
    if (one.id == kNone || pretoken == std::string_view(whole_bytes_.data() + one.begin, one.bytes))
      return one.id;
  }
}

std::size_t Bpe::merge(std::string_view pretoken, std::uint32_t* ids) const {
  if (const std::uint32_t id = find_whole(pretoken); id != kNone) {
    *ids = id;
    return 1;
  }
  return pretoken.size() <= kShortMergeMax ? merge_short(pretoken, ids) : merge_long(pretoken, ids);
}

// The lowest rank is looked for in an array of all pairs' ranks, which is quick for the few that pretokens have.
std::size_t Bpe::merge_short(std::string_view pretoken, std::uint32_t* ids) const {
  std::array<std::uint32_t, kShortMergeMax> ranks;
  std::size_t count = pretoken.size();
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(pretoken[i]); };
  for (std::size_t i = 0; i < count; ++i) ids[i] = byte_ids_[byte(i)];
  for (std::size_t i = 0; i + 1 < count; ++i) ranks[i] = byte_ranks_[std::size_t{byte(i)} << 8 | byte(i + 1)];
  while (count > 1) {
    std::uint32_t lowest = ranks[0];
    std::size_t at = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      at = ranks[i] < lowest ? i : at;
      lowest = std::min(lowest, ranks[i]);
    }
    if (lowest == kNone) break;
    ids[at] = results_[lowest];
    --count;
    for (std::size_t i = at + 1; i < count; ++i) {
      ids[i] = ids[i + 1];
      ranks[i - 1] = ranks[i];
    }
    if (at + 1 < count) ranks[at] = rank(ids[at], ids[at + 1]);
    if (at > 0) ranks[at - 1] = rank(ids[at - 1], ids[at]);
  }
  return count;
}

std::size_t Bpe::merge_long(std::string_view pretoken, std::uint32_t* ids) const {
  struct Part {
    std::uint32_t id, before, behind;
  };
  struct Candidate {
    std::uint32_t rank, at, left, right;
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  const auto count = static_cast<std::uint32_t>(pretoken.size());
  std::vector<Part> parts(count);
  for (std::uint32_t i = 0; i < count; ++i)
    parts[i] = {byte_ids_[static_cast<unsigned char>(pretoken[i])], i - 1, i + 1 < count ? i + 1 : kNone};
  std::priority_queue<Candidate> waiting;
  const auto add = [&](std::uint32_t at) {
    if (at == kNone || parts[at].behind == kNone) return;
    const Part& right = parts[parts[at].behind];
    if (const std::uint32_t found = rank(parts[at].id, right.id); found != kNone)
      waiting.push({found, at, parts[at].id, right.id});
  };
  for (std::uint32_t i = 0; i + 1 < count; ++i) add(i);
  while (!waiting.empty()) {
    const Candidate one = waiting.top();
    waiting.pop();
    Part& left = parts[one.at];
    if (left.id != one.left || left.behind == kNone || parts[left.behind].id != one.right)
      continue;  // merged since
    Part& right = parts[left.behind];
    left.id = results_[one.rank];
    left.behind = right.behind;
    right.id = kNone;
    if (left.behind != kNone) parts[left.behind].before = one.at;
    add(left.before);
    add(one.at);
  }
  std::size_t made = 0;
  for (std::uint32_t i = 0; i != kNone; i = parts[i].behind) ids[made++] = parts[i].id;
  return made;
}

namespace {

constexpr std::size_t kLongs = std::size_t{1} << 16;
/// Of the first and of the last eight of 16 bytes, what belongs to the first `n` of all.
constexpr std::array<std::array<std::uint64_t, 2>, 17> kFirstBytes = [] {
  std::array<std::array<std::uint64_t, 2>, 17> masks{};
  for (std::size_t n = 1; n <= 16; ++n)
    for (std::size_t i = 0; i < n; ++i) masks[n][i / 8] |= std::uint64_t{255} << (i % 8 * 8);
  return masks;
}();

/// At most 16 bytes, with zeros behind them. The text goes on up to `end`, so that two loads do in most cases.
std::array<std::uint64_t, 2> short_key(std::string_view bytes, const char* end) {
  std::array<std::uint64_t, 2> key{};
  if (end - bytes.data() < 16) {
    std::memcpy(key.data(), bytes.data(), bytes.size());
    return key;
  }
  std::memcpy(key.data(), bytes.data(), 16);
  const auto& first = kFirstBytes[bytes.size()];
  return {key[0] & first[0], key[1] & first[1]};
}

constexpr std::size_t kLongBytesMax = 6 << 20, kLongIdsMax = kLongBytesMax / 6;  // with the tables 28 MiB

}  // namespace

BpeEncoder::BpeEncoder(std::shared_ptr<const Bpe> bpe, unsigned set_bits)
    : bpe_(std::move(bpe)),
      sets_(std::size_t{1} << set_bits),
      shorts_(static_cast<Short*>(std::calloc(2 * sets_, sizeof(Short)))),
      longs_(kLongs) {
  if (!shorts_) throw std::bad_alloc();
}

Result<std::span<const std::uint32_t>> BpeEncoder::encode(std::string_view text, std::size_t most) {
  if (text.size() > kTextMax)
    return fail(Code::kExhausted, fmt::format("text: got {} B; at most {}", text.size(), kTextMax));
  if (const std::size_t valid = valid_utf8_bytes(text); valid != text.size())
    return fail(Code::kCorrupt, fmt::format("text: byte {} begins no character of UTF-8", valid));
  if (const std::size_t wanted = text.size() + kSpare; room_ < wanted) {
    ids_ = std::make_unique_for_overwrite<std::uint32_t[]>(wanted);
    room_ = wanted;
  }
  const std::uint32_t* end = nullptr;
  switch (bpe_->pretokens()) {
    case Pretokens::kGpt2:
      end = encode_as<Pretokens::kGpt2>(text, most);
      break;
    case Pretokens::kLlama3:
      end = encode_as<Pretokens::kLlama3>(text, most);
      break;
    case Pretokens::kQwen2:
      end = encode_as<Pretokens::kQwen2>(text, most);
      break;
    case Pretokens::kGpt4o:
      end = encode_as<Pretokens::kGpt4o>(text, most);
      break;
  }
  return std::span(ids_.get(), std::min(most, static_cast<std::size_t>(end - ids_.get())));
}

// Sets lie anywhere in 16 MiB, so that each would be waited for: those of some pretokens are asked for together.
template <Pretokens kKind>
std::uint32_t* BpeEncoder::encode_as(std::string_view text, std::size_t most) {
  const char* const end = text.data() + text.size();
  const PretokenScanner<kKind> scanner(end);
  std::array<Found, kAhead> ahead;
  std::uint32_t* to = ids_.get();
  for (const char* at = text.data(); at < end;) {
    std::size_t count = 0;
    for (; count < kAhead && at < end; ++count) {
      const char* const next = scanner.next(at);
      ahead[count] = found({at, next}, end);
      at = next;
    }
    for (const Found& one : std::span(ahead.data(), count)) {
      if (static_cast<std::size_t>(to - ids_.get()) >= most) return to;
      to = add(one, to);
    }
  }
  return to;
}

BpeEncoder::Found BpeEncoder::found(std::string_view pretoken, const char* end) {
  if (pretoken.size() > kShortBytes) return {.pretoken = pretoken};
  const std::array<std::uint64_t, 2> key = short_key(pretoken, end);
  const std::uint64_t hash = mixed(key[0] + pretoken.size(), key[1]);
  Short* const set = &shorts_[2 * (hash & (sets_ - 1))];
  __builtin_prefetch(set);
  return {pretoken, key, hash, set};
}

std::uint32_t* BpeEncoder::add(const Found& found, std::uint32_t* to) {
  const auto& [pretoken, key, hash, set] = found;
  for (const Short* one = set; set != nullptr && one != set + 2; ++one)
    if (one->low == key[0] && one->high == key[1] && one->bytes == pretoken.size()) {
      std::memcpy(to, one->ids.data(),
                  sizeof one->ids);  // all of them, which is quicker than to look how many
      return to + one->count;
    }
  return add_other(found, to);
}

std::uint32_t* BpeEncoder::add_other(const Found& found, std::uint32_t* to) {
  const auto& [pretoken, key, short_hash, set] = found;
  const std::uint64_t hash = hash_of(pretoken) | 1;
  Long& place = longs_[(hash >> 20) & (kLongs - 1)];
  if (place.hash == hash && pretoken == std::string_view(long_bytes_.data() + place.bytes_at, place.bytes))
    return std::copy_n(long_ids_.begin() + place.ids_at, place.count, to);
  const std::size_t count = bpe_->merge(pretoken, to);
  if (set != nullptr && count <= kShortIds) {
    Short& free = set[0].bytes == 0 ? set[0] : set[1].bytes == 0 ? set[1] : set[short_hash >> 63];
    free = {
        key[0], key[1], {}, static_cast<std::uint16_t>(pretoken.size()), static_cast<std::uint16_t>(count)};
    std::copy_n(to, count, free.ids.begin());
    return to + count;
  }
  if (pretoken.size() > kShortMergeMax) return to + count;  // it will hardly come again
  if (long_bytes_.size() + pretoken.size() > kLongBytesMax || long_ids_.size() + count > kLongIdsMax) {
    longs_.assign(kLongs, {});  // begin anew, since nothing of the bytes is given back
    long_bytes_.clear();
    long_ids_.clear();
  }
  const Long made{hash, static_cast<std::uint32_t>(pretoken.size()), static_cast<std::uint32_t>(count),
                  static_cast<std::uint32_t>(long_bytes_.size()),
                  static_cast<std::uint32_t>(long_ids_.size())};
  long_bytes_.insert(long_bytes_.end(), pretoken.begin(), pretoken.end());
  long_ids_.insert(long_ids_.end(), to, to + count);
  place = made;
  return to + count;
}

}  // namespace carya::text
