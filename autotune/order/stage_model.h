#pragma once

#include <cstddef>
#include <vector>

#include "autotune/order/chain.h"
#include "autotune/order/profile.h"
#include "base/error.h"

namespace carya::autotune {

/// What a stage of one or more ops costs. The cost function and the search both charge stages through this
/// class, so that there is one model:
///
///   a stage costs what its longest measured beginning costs (a single op counts as measured), plus, for each
///   op after that, the op's cost as a follower: alone, less the boundary that fusion avoids, and never under
///   follower_share_min of its cost alone.
///
/// Keeps references: chain and profile must outlive it. Threads: const is thread-safe.
class StageModel {
 public:
  /// Errors: kInvalidArgument: numbers that are negative or not finite; a measured stage that is given twice,
  /// repeats an op, has less than 2 ops or ops that do not fuse. kExhausted: more than kNodesMax nodes.
  static Result<StageModel> create(const Chain& chain, const Profile& profile, bool fuse = true);

  /// Ops that may follow `op` in a stage; none when fusion is off.
  OpSet fuses_with(std::size_t op) const { return fuse_ ? chain_->fuses_with(op) : 0; }

  /// Whether measured stages are in the tree below.
  bool fuses() const { return fuse_; }

  /// Nodes of the tree of measured stages. The root is the empty stage; no node: a stage that is no beginning
  /// of a measured one.
  static constexpr int kRoot = 0;
  static constexpr int kNoNode = -1;
  static constexpr std::size_t kNodesMax = 4096;  ///< a search looks at them from every set of ops
  int child(int node, std::size_t op) const;
  const std::vector<int>& children(int node) const { return nodes_[static_cast<std::size_t>(node)].children; }
  std::size_t op_of(int node) const { return nodes_[static_cast<std::size_t>(node)].op; }
  int parent(int node) const { return nodes_[static_cast<std::size_t>(node)].parent; }
  /// The ops from the root to the node.
  std::vector<std::size_t> path(int node) const;

  /// A stage while ops are added to it.
  struct Walk {
    Size start;     ///< before its first op
    Size at;        ///< after its last
    double ns = 0;  ///< of the whole stage so far
    int node = kRoot;
    std::size_t ops = 0;
    std::size_t measured = 0;  ///< ops of its longest measured beginning, 1 for the first op alone
  };
  static Walk begin(const Size& at) { return {.start = at, .at = at}; }
  void append(Walk& walk, std::size_t op) const;

  double first_ns(std::size_t op, const Size& in, const Size& out) const {
    return chain_->op(op).cost.ns(in, out);
  }
  double follower_ns(std::size_t op, const Size& in, const Size& out) const;

  const Chain& chain() const { return *chain_; }
  const Profile& profile() const { return *profile_; }

 private:
  struct Node {
    std::size_t op = 0;
    int parent = kNoNode;
    std::vector<int> children;
    const FittedCost* measured = nullptr;
  };
  StageModel(const Chain& chain, const Profile& profile, bool fuse)
      : chain_(&chain), profile_(&profile), fuse_(fuse), nodes_(1) {}
  Status add(const FusedCost& fused);

  const Chain* chain_;
  const Profile* profile_;
  bool fuse_;
  std::vector<Node> nodes_;  // [0] is the root
};

}  // namespace carya::autotune
