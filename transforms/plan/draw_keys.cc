// Whose random numbers an op draws: by its name and which of that name it is, in its part of the chain.

#include <map>
#include <optional>
#include <string>

#include "base/philox.h"
#include "transforms/plan/program.h"

namespace carya::transforms {
namespace {

void list_keys(const Op& op, std::uint64_t seed, const EpochGroups* groups,
               std::map<std::string, std::uint32_t>& occurrences, std::vector<DrawKey>& keys) {
  const bool views = op.traits().kind == OpKind::kViews;
  if (!views) keys.push_back({op_key(seed, op.name(), occurrences[op.name()]++), groups});
  for (int times = views ? 2 : 1; times > 0; --times)
    for (const auto& inner : op.inner()) list_keys(*inner, seed, groups, occurrences, keys);
}

/// A part counts the occurrences of an op from 0, so that it has a seed of its own.
std::uint64_t seed_of_part(std::uint64_t seed, std::uint32_t part) {
  SampleRng rng(op_key(seed, "carya.part", part), 0, 0, 0);
  const std::uint64_t low = rng.next_u32();
  return low | (std::uint64_t{rng.next_u32()} << 32);
}

}  // namespace

std::vector<std::vector<DrawKey>> keys_of_ops(const Pipeline& pipeline, std::uint64_t seed) {
  std::map<std::optional<std::uint32_t>, std::map<std::string, std::uint32_t>> occurrences;  // by part
  std::vector<std::vector<DrawKey>> keys;
  for (std::size_t i = 0; i < pipeline.ops().size(); ++i) {
    const std::optional<std::uint32_t> part = pipeline.part(i);
    const EpochGroups& groups = pipeline.epoch_groups(i);
    list_keys(*pipeline.ops()[i], part ? seed_of_part(seed, *part) : seed,
              groups.each_alone() ? nullptr : &groups, occurrences[part], keys.emplace_back());
  }
  return keys;
}

}  // namespace carya::transforms
