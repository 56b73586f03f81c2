#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/order/op_model.h"
#include "base/error.h"

namespace carya::autotune {

/// A set of ops: bit i is op i of the declared order.
using OpSet = std::uint64_t;
inline constexpr std::size_t kChainOpsMax = 64;
constexpr OpSet op_bit(std::size_t op) {
  return OpSet{1} << op;
}

/// Two ops that may change places. The order of `a` and `b` does not matter. Ops of a pair that is not listed never
/// change places.
struct CommutingPair {
  std::size_t a = 0;
  std::size_t b = 0;
  Commutes commutes = Commutes::kNever;
};

/// Two ops that may be computed in one pass if `second` runs directly after `first`.
struct FusingPair {
  std::size_t first = 0;
  std::size_t second = 0;
};

struct ChainSpec {
  std::vector<OpModel> ops;  ///< in declared order
  std::vector<CommutingPair> commuting;
  std::vector<FusingPair> fusing;
  std::vector<std::size_t> barriers;  ///< b: no op passes from before op b to after it; 0 .. number of ops
};

/// The ops of a pipeline as the planner sees them, checked. Immutable. Threads: const is thread-safe.
class Chain {
 public:
  /// Check a specification. Errors: kInvalidArgument (impossible numbers or indices; kinds that contradict size rules;
  /// a `depends_on` that names no op, more than one op, or an op that is declared later, or that goes in a circle),
  /// kUnsupported (more than kChainOpsMax ops). The message names the op and what to change.
  static Result<Chain> create(ChainSpec spec);

  std::size_t size() const { return ops_.size(); }
  const OpModel& op(std::size_t index) const { return ops_[index]; }
  /// The op's name. If several ops have the name, it is "name#0" for the first, "name#1" for the second, and so on.
  const std::string& label(std::size_t index) const { return labels_[index]; }
  OpSet all() const { return ops_.size() == kChainOpsMax ? ~OpSet{0} : op_bit(ops_.size()) - 1; }

  /// The declared kind of the pair.
  Commutes commutes(std::size_t a, std::size_t b) const { return commutes_[a * ops_.size() + b]; }
  /// Whether two neighbours may change places under `sense`. They are declared so, neither is fixed, no barrier lies
  /// between them in the declared order, and neither depends on the other. Their size rules commute too: two orders
  /// that leave different sizes cannot leave the same bits, whatever was declared.
  bool may_exchange(std::size_t a, std::size_t b, Sense sense) const;
  /// The ops that may follow `first` in the same pass.
  OpSet fuses_with(std::size_t first) const { return fuses_[first]; }

 private:
  Chain() = default;
  void name_ops();
  Status read_pairs(const ChainSpec& spec);
  Status read_depends_on();
  Result<std::size_t> find(std::size_t op, const std::string& wanted) const;
  Status refuse_circles() const;

  std::vector<OpModel> ops_;
  std::vector<std::string> labels_;
  std::vector<Commutes> commutes_;       // [a * size + b], symmetric
  std::vector<OpSet> fuses_;             // [first]
  std::vector<OpSet> depends_;           // [op]: the ops that it names
  std::vector<std::uint32_t> segments_;  // [op]: how many barriers lie before it
};

}  // namespace carya::autotune
