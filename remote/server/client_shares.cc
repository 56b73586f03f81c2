#include "remote/server/client_shares.h"

#include <algorithm>
#include <limits>
#include <map>

namespace carya::remote {

namespace {

/// The clients of a user that ask.
struct UserClaim {
  double weight = 0, most = 0, parts = 0;
};

/// A client's part of what its user has.
double part_of(const ShareClaim& client, double most) {
  return most > 0 ? std::clamp(client.worth / most, kLeastOfUser, 1.0) : 1;
}

}  // namespace

std::vector<double> client_shares(std::span<const ShareClaim> clients) {
  return bounded_shares(clients, std::numeric_limits<double>::infinity());
}

std::vector<double> bounded_shares(std::span<const ShareClaim> clients, double user_weight_max) {
  std::map<std::string_view, UserClaim> users;
  for (const ShareClaim& client : clients) {
    UserClaim& user = users[client.user];
    if (!client.asks) continue;
    user.weight += client.weight;
    user.most = std::max(user.most, client.worth);
  }
  for (const ShareClaim& client : clients)
    if (UserClaim& user = users[client.user]; client.asks) user.parts += part_of(client, user.most);
  double asking = 0;
  for (const auto& [name, user] : users) asking += std::min(user.weight, user_weight_max);
  std::vector<double> shares;
  for (const ShareClaim& client : clients) {
    const UserClaim& user = users[client.user];
    const double part = part_of(client, user.most);
    const double now = std::min(user.weight, user_weight_max);
    const double then = std::min(user.weight + client.weight, user_weight_max);
    shares.push_back(client.asks ? now / asking * part / user.parts
                                 : then / (asking - now + then) * part / (user.parts + part));
  }
  return shares;
}

}  // namespace carya::remote
