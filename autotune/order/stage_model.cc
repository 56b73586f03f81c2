#include "autotune/order/stage_model.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <string>

#include "autotune/order/op_model.h"

namespace carya::autotune {
namespace {

Status check(const Profile& profile) {
  const Size& source = profile.source;
  if (!usable(source.pixels) || !usable(source.channels) || !usable(source.element_bytes))
    return fail(Code::kInvalidArgument,
                "profile: the size of a record has a part that is negative or not finite");
  const FusionEstimate& estimate = profile.estimate;
  if (!usable(estimate.boundary_ns) || !usable(estimate.boundary_ns_per_byte))
    return fail(Code::kInvalidArgument, "profile: a boundary saves a negative time or none that is finite");
  if (!(estimate.follower_share_min > 0 && estimate.follower_share_min <= 1))
    return fail(Code::kInvalidArgument,
                fmt::format("profile: follower_share_min is {}; it must be above 0 and at most 1",
                            estimate.follower_share_min));
  return {};
}

}  // namespace

Result<StageModel> StageModel::create(const Chain& chain, const Profile& profile, bool fuse) {
  TRY(check(profile));
  StageModel model(chain, profile, fuse);
  for (const FusedCost& fused : profile.fused) TRY(model.add(fused));
  if (!fuse) model.nodes_.assign(1, Node{});
  return model;
}

Status StageModel::add(const FusedCost& fused) {
  std::string subject = "measured stage";
  for (std::size_t i = 0; i < fused.ops.size(); ++i) {
    if (fused.ops[i] >= chain_->size())
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: op {} of a chain of {}", subject, fused.ops[i], chain_->size()));
    subject += (i == 0 ? " " : "+") + chain_->label(fused.ops[i]);
  }
  if (fused.ops.size() < 2) return fail(Code::kInvalidArgument, subject + ": has less than 2 ops");
  TRY(autotune::check(fused.cost, subject));
  OpSet seen = 0;
  int node = kRoot;
  for (std::size_t i = 0; i < fused.ops.size(); ++i) {
    const std::size_t op = fused.ops[i];
    if ((seen & op_bit(op)) != 0)
      return fail(Code::kInvalidArgument, subject + ": " + chain_->label(op) + " is in it twice");
    if (i > 0 && (chain_->fuses_with(fused.ops[i - 1]) & op_bit(op)) == 0)
      return fail(Code::kInvalidArgument, subject + ": " + chain_->label(op) + " does not fuse with " +
                                              chain_->label(fused.ops[i - 1]));
    seen |= op_bit(op);
    int next = child(node, op);
    if (next == kNoNode) {
      if (nodes_.size() == kNodesMax)
        return fail(
            Code::kExhausted,
            fmt::format("{}: the profile has more measured stages than {} ops in all; drop the oldest",
                        subject, kNodesMax));
      next = static_cast<int>(nodes_.size());
      nodes_.push_back({.op = op, .parent = node, .children = {}, .measured = nullptr});
      nodes_[static_cast<std::size_t>(node)].children.push_back(next);
    }
    node = next;
  }
  Node& last = nodes_[static_cast<std::size_t>(node)];
  if (last.measured != nullptr) return fail(Code::kInvalidArgument, subject + ": is given twice");
  last.measured = &fused.cost;
  return {};
}

int StageModel::child(int node, std::size_t op) const {
  for (const int next : children(node))
    if (op_of(next) == op) return next;
  return kNoNode;
}

std::vector<std::size_t> StageModel::path(int node) const {
  std::vector<std::size_t> ops;
  for (; node != kRoot; node = nodes_[static_cast<std::size_t>(node)].parent) ops.push_back(op_of(node));
  std::reverse(ops.begin(), ops.end());
  return ops;
}

void StageModel::append(Walk& walk, std::size_t op) const {
  const Size out = chain_->op(op).size(walk.at);
  ++walk.ops;
  if (walk.ops == 1) {
    walk.ns = first_ns(op, walk.at, out);
    walk.measured = 1;
  } else {
    walk.ns += follower_ns(op, walk.at, out);
  }
  if (walk.node != kNoNode) walk.node = child(walk.node, op);
  if (walk.node != kNoNode) {
    if (const FittedCost* measured = nodes_[static_cast<std::size_t>(walk.node)].measured) {
      walk.ns = measured->ns(walk.start, out);
      walk.measured = walk.ops;
    }
  }
  walk.at = out;
}

double StageModel::follower_ns(std::size_t op, const Size& in, const Size& out) const {
  const FusionEstimate& estimate = profile_->estimate;
  const double alone = first_ns(op, in, out);
  const double saved = estimate.boundary_ns + estimate.boundary_ns_per_byte * in.bytes();
  return std::max(alone - saved, alone * estimate.follower_share_min);
}

}  // namespace carya::autotune
