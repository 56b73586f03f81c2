#include "remote/server/client_shares.h"

#include <algorithm>
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
  std::map<std::string_view, UserClaim> users;
  double asking = 0;
  for (const ShareClaim& client : clients) {
    UserClaim& user = users[client.user];
    if (!client.asks) continue;
    asking += client.weight;
    user.weight += client.weight;
    user.most = std::max(user.most, client.worth);
  }
  for (const ShareClaim& client : clients)
    if (UserClaim& user = users[client.user]; client.asks) user.parts += part_of(client, user.most);
  std::vector<double> shares;
  for (const ShareClaim& client : clients) {
    const UserClaim& user = users[client.user];
    const double part = part_of(client, user.most);
    shares.push_back(client.asks ? user.weight / asking * part / user.parts
                                 : (user.weight + client.weight) / (asking + client.weight) * part /
                                       (user.parts + part));
  }
  return shares;
}

}  // namespace carya::remote
