#include "loader/data/mix_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace carya::loader {
namespace {

/// What each source has of `positions` positions, by nested floors.
void add_floors(std::uint64_t positions, std::span<const std::uint64_t> weights, std::uint64_t total,
                std::span<std::uint64_t> given) {
  const std::uint64_t rounds = positions / total;  // after each round every source has given its weight
  std::uint64_t rest = positions % total;
  for (std::size_t source = 0; source < weights.size(); ++source) {
    // Where no weight is left, no position is.
    const std::uint64_t mine = total == 0 ? 0 : rest * weights[source] / total;
    given[source] += rounds * weights[source] + mine;
    rest -= mine;
    total -= weights[source];
  }
}

}  // namespace

MixOrder::MixOrder(Options options) : options_(std::move(options)), orders_(options_.sources.size()) {
  std::vector<std::uint64_t> base(options_.sources.size());
  for (std::size_t i = 0; i < options_.table.size(); ++i) {
    const Stretch& stretch = options_.table[i];
    if (i > 0) {
      const Stretch& former = options_.table[i - 1];
      add_floors(stretch.at - former.at, former.weights, totals_.back(), base);
    }
    bases_.push_back(base);
    totals_.push_back(std::reduce(stretch.weights.begin(), stretch.weights.end()));
  }
}

Result<MixOrder> MixOrder::create(Options options) {
  const std::size_t count = options.sources.size();
  if (count == 0 || options.table.empty() || options.table.front().at != 0)
    return fail(Code::kInvalidArgument, "mix: sources, and a table of weights that begins at position 0");
  if (options.length == 0 || options.length > kPositionsMax)
    return fail(Code::kInvalidArgument, "mix: an epoch has 1 to 2^63 positions");
  for (const Source& source : options.sources) {
    if (source.count == 0 || source.count > Permutation::kCountMax)
      return fail(Code::kInvalidArgument, "mix: a source has 1 to 2^48 samples");
  }
  for (std::size_t i = 0; i < options.table.size(); ++i) {
    const Stretch& stretch = options.table[i];
    if (stretch.at >= kPositionsMax || (i > 0 && stretch.at <= options.table[i - 1].at))
      return fail(Code::kInvalidArgument, "mix: positions of the table do not rise");
    if (stretch.weights.size() != count) return fail(Code::kInvalidArgument, "mix: a weight for each source");
    std::uint64_t total = 0;
    for (const std::uint64_t weight : stretch.weights) {
      if (weight > kWeightsMax || (total += weight) > kWeightsMax)
        return fail(Code::kInvalidArgument, "mix: the sum of the weights is more than 2^31");
    }
    if (total == 0) return fail(Code::kInvalidArgument, "mix: all weights are 0");
  }
  return MixOrder(std::move(options));
}

std::vector<std::uint64_t> MixOrder::given(std::uint64_t position) const {
  const auto after = std::ranges::upper_bound(options_.table, position, {}, &Stretch::at);
  const auto stretch = static_cast<std::size_t>(after - options_.table.begin()) - 1;
  std::vector<std::uint64_t> given = bases_[stretch];
  add_floors(position - options_.table[stretch].at, options_.table[stretch].weights, totals_[stretch], given);
  return given;
}

MixOrder::Place MixOrder::place(std::uint64_t position) const {
  std::size_t stretch = 0;
  if (options_.table.size() > 1) {
    const auto after = std::ranges::upper_bound(options_.table, position, {}, &Stretch::at);
    stretch = static_cast<std::size_t>(after - options_.table.begin()) - 1;
  }
  const std::vector<std::uint64_t>& weights = options_.table[stretch].weights;
  std::uint64_t total = totals_[stretch];
  const std::uint64_t inside = position - options_.table[stretch].at;
  const std::uint64_t rounds = inside / total;
  std::uint64_t rest = inside % total;
  // With one position more exactly one floor goes up by one; the rest goes up by one until there.
  for (std::size_t source = 0;; ++source) {
    const std::uint64_t mine = rest * weights[source] / total;
    if ((rest + 1) * weights[source] / total != mine)
      return {source, bases_[stretch][source] + rounds * weights[source] + mine};
    rest -= mine;
    total -= weights[source];
  }
}

const Permutation& MixOrder::permutation_of_block(std::uint64_t epoch, std::uint64_t block) {
  const std::uint64_t key = epoch * (options_.length / kBlock + 1) + block;
  if (!block_ || block_->key != key) {
    const std::uint64_t count = std::min(kBlock, options_.length - block * kBlock);
    block_.emplace(key, Permutation(options_.seed.value_or(0), key, count));
  }
  return block_->permutation;
}

const std::vector<MixOrder::Place>& MixOrder::block_in_turn(std::uint64_t epoch, std::uint64_t block) {
  const Permutation& permutation = permutation_of_block(epoch, block);
  if (!turned_.empty() && turned_key_ == block_->key) return turned_;
  const std::uint64_t begin = epoch * options_.length + block * kBlock;
  std::vector<std::uint64_t> next = given(begin);
  turned_.clear();
  turned_key_ = block_->key;
  for (std::uint64_t at = 0; at < permutation.count(); ++at) {
    const std::size_t source = place(begin + permutation(at)).source;
    turned_.push_back({source, next[source]++});
  }
  return turned_;
}

Status MixOrder::places(std::uint64_t epoch, std::uint64_t first, std::span<std::int64_t> sources,
                        std::span<std::int64_t> numbers) {
  const std::uint64_t count = sources.size();
  CHECK(numbers.size() == count);
  if (first > options_.length || count > options_.length - first)
    return fail(Code::kInvalidArgument, "mix: positions past the end of the epoch");
  if (epoch >= kPositionsMax / options_.length)
    return fail(Code::kInvalidArgument, "mix: the epoch is past position 2^63 of the stream");
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t block = (first + i) / kBlock;
    const std::uint64_t inside = (first + i) % kBlock;
    const std::uint64_t begin = epoch * options_.length + block * kBlock;
    Place found{};
    if (!options_.seed) {
      found = place(begin + inside);
    } else if (options_.in_turn) {
      found = block_in_turn(epoch, block)[inside];
    } else {
      found = place(begin + permutation_of_block(epoch, block)(inside));
    }
    sources[i] = static_cast<std::int64_t>(found.source);
    numbers[i] = static_cast<std::int64_t>(found.number);
  }
  return {};
}

Status MixOrder::rows(std::uint64_t epoch, std::uint64_t first, const Rows& rows) {
  CHECK(rows.epochs.size() == rows.sources.size());
  TRY(places(epoch, first, rows.sources, rows.indices));
  for (std::size_t i = 0; i < rows.sources.size(); ++i) {
    const auto number = static_cast<std::size_t>(rows.sources[i]);
    const Source& source = options_.sources[number];
    const std::uint64_t taken = static_cast<std::uint64_t>(rows.indices[i]);
    const std::uint64_t own_epoch = taken / source.count;
    std::uint64_t index = taken % source.count;
    if (source.shuffle_seed) {
      std::optional<Kept>& order = orders_[number];
      if (!order || order->key != own_epoch)
        order.emplace(own_epoch, Permutation(*source.shuffle_seed, own_epoch, source.count));
      index = order->permutation(index);
    }
    rows.epochs[i] = static_cast<std::int64_t>(own_epoch);
    rows.indices[i] = static_cast<std::int64_t>(index);
  }
  return {};
}

}  // namespace carya::loader
