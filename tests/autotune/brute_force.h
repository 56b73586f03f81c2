#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "autotune/order/chain.h"
#include "autotune/order/cost.h"
#include "autotune/order/profile.h"

namespace carya::autotune {

/// A chain and its profile, made by chance.
struct Instance {
  ChainSpec spec;
  Profile profile;
};
Instance random_instance(std::mt19937_64& random, std::size_t ops);

using Order = std::vector<std::size_t>;

/// Costs that are the same but for the order in which they are added.
inline constexpr double kNear = 1e-9;

/// All orders that exchanges of neighbours can reach from the declared one. Written from the words of the
/// design, not from autotune/order/precedence.cc.
std::vector<Order> reachable_orders(const ChainSpec& spec, Sense sense);

/// What an order costs with the best choice of stages, tried from scratch. Ops of `apart` begin a stage.
double cheapest_fusion_ns(const Instance& instance, const Order& order, bool fuse, OpSet apart = 0);

/// What a plan costs.
double plan_ns(const Instance& instance, const Plan& plan);

}  // namespace carya::autotune
