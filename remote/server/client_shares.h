#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace carya::remote {

/// What a client says of itself, and whether it wants anything now.
struct ShareClaim {
  std::string_view user{};
  double weight = 1;  ///< beside those of other users; above 0
  double worth = 0;   ///< what a worker saves it; not below 0
  bool asks = false;
};

/// What each client may have of a server, from above 0 to 1; those that ask have 1 together. Weights say how much a user
/// has: the sum of the weights of his clients that ask. Money decides among them: each has of it what a worker saves it,
/// but no less than kLeastOfUser of the most. A client that does not ask is told what it would have. Pure.
std::vector<double> client_shares(std::span<const ShareClaim> clients);
/// The same where the weights of one user's clients count together for `user_weight_max` at most, above 0.
std::vector<double> bounded_shares(std::span<const ShareClaim> clients, double user_weight_max);

inline constexpr double kLeastOfUser = 0.125;

}  // namespace carya::remote
