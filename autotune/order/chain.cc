#include "autotune/order/chain.h"

#include <fmt/core.h>
#include <utility>

namespace carya::autotune {
namespace {

std::string in_quotes(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

}  // namespace

Result<Chain> Chain::create(ChainSpec spec) {
  if (spec.ops.size() > kChainOpsMax)
    return fail(Code::kUnsupported,
                fmt::format("a chain of {} ops; at most {} can be ordered: use reorder=\"off\" or join ops",
                            spec.ops.size(), kChainOpsMax));
  Chain chain;
  for (const OpModel& op : spec.ops) TRY(check(op));
  chain.ops_ = std::move(spec.ops);
  chain.name_ops();
  TRY(chain.read_pairs(spec));
  TRY(chain.read_depends_on());
  return chain;
}

void Chain::name_ops() {
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    std::size_t before = 0, all = 0;
    for (std::size_t k = 0; k < ops_.size(); ++k) {
      if (ops_[k].name != ops_[i].name) continue;
      ++all;
      if (k < i) ++before;
    }
    labels_.push_back(all == 1 ? ops_[i].name : fmt::format("{}#{}", ops_[i].name, before));
  }
}

Status Chain::read_pairs(const ChainSpec& spec) {
  const std::size_t count = ops_.size();
  const auto no_pair = [&](std::string_view what, std::size_t a, std::size_t b) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} ({}, {}) is no pair of two ops of a chain of {}", what, a, b, count));
  };
  commutes_.assign(count * count, Commutes::kNever);
  fuses_.assign(count, 0);
  segments_.assign(count, 0);
  for (const CommutingPair& pair : spec.commuting) {
    if (pair.a >= count || pair.b >= count || pair.a == pair.b)
      return no_pair("commuting pair", pair.a, pair.b);
    commutes_[pair.a * count + pair.b] = commutes_[pair.b * count + pair.a] = pair.commutes;
  }
  for (const FusingPair& pair : spec.fusing) {
    if (pair.first >= count || pair.second >= count || pair.first == pair.second)
      return no_pair("fusing pair", pair.first, pair.second);
    fuses_[pair.first] |= op_bit(pair.second);
  }
  for (const std::size_t barrier : spec.barriers) {
    if (barrier > count)
      return fail(Code::kInvalidArgument,
                  fmt::format("barrier {} lies behind the end of a chain of {} ops", barrier, count));
    for (std::size_t i = barrier; i < count; ++i) ++segments_[i];
  }
  return {};
}

Result<std::size_t> Chain::find(std::size_t op, const std::string& wanted) const {
  const std::string subject = "op " + labels_[op] + ": depends_on " + in_quotes(wanted);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (labels_[i] == wanted) return i;
    if (ops_[i].name == wanted) found.push_back(i);
  }
  if (found.empty()) {
    std::string known;
    for (const std::string& label : labels_) known += (known.empty() ? "" : ", ") + label;
    return fail(Code::kInvalidArgument, subject + " names no op of the pipeline; there are " + known);
  }
  std::string choices;
  for (const std::size_t i : found) choices += (choices.empty() ? "" : " or ") + in_quotes(labels_[i]);
  return fail(Code::kInvalidArgument,
              fmt::format("{} names {} ops; write {}", subject, found.size(), choices));
}

Status Chain::read_depends_on() {
  depends_.assign(ops_.size(), 0);
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    for (const std::string& name : ops_[i].depends_on) {
      ASSIGN(const std::size_t other, find(i, name));
      depends_[i] |= op_bit(other);
    }
  }
  TRY(refuse_circles());
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    for (std::size_t later = i + 1; later < ops_.size(); ++later) {
      if ((depends_[i] & op_bit(later)) == 0) continue;
      return fail(Code::kInvalidArgument, "op " + labels_[i] + ": depends_on " + in_quotes(labels_[later]) +
                                              ", but the pipeline runs " + labels_[later] +
                                              " after it; declare it first or remove the dependency");
    }
  }
  return {};
}

// Every circle has a step to a later op, but says more when it is named whole: walk the dependencies from
// each op and remember the way.
Status Chain::refuse_circles() const {
  enum class Mark : std::uint8_t { kNew, kOnWay, kDone };
  std::vector<Mark> marks(ops_.size(), Mark::kNew);
  for (std::size_t start = 0; start < ops_.size(); ++start) {
    if (marks[start] != Mark::kNew) continue;
    std::vector<std::size_t> way{start};
    marks[start] = Mark::kOnWay;
    while (!way.empty()) {
      std::size_t next = ops_.size();
      for (std::size_t i = 0; i < ops_.size() && next == ops_.size(); ++i)
        if ((depends_[way.back()] & op_bit(i)) != 0 && marks[i] != Mark::kDone) next = i;
      if (next == ops_.size()) {
        marks[way.back()] = Mark::kDone;
        way.pop_back();
        continue;
      }
      if (marks[next] == Mark::kOnWay) {
        std::size_t first = 0;
        while (way[first] != next) ++first;
        std::string circle;
        for (std::size_t i = first; i < way.size(); ++i) circle += labels_[way[i]] + " -> ";
        return fail(Code::kInvalidArgument, "depends_on goes in a circle: " + circle + labels_[next] +
                                                "; remove one of these dependencies");
      }
      marks[next] = Mark::kOnWay;
      way.push_back(next);
    }
  }
  return {};
}

bool Chain::may_exchange(std::size_t a, std::size_t b, Sense sense) const {
  return allows(sense, commutes(a, b)) && !ops_[a].keep_position && !ops_[b].keep_position &&
         segments_[a] == segments_[b] && (depends_[a] & op_bit(b)) == 0 && (depends_[b] & op_bit(a)) == 0 &&
         commute(ops_[a].size, ops_[b].size);
}

}  // namespace carya::autotune
