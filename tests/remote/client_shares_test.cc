#include "remote/server/client_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace carya::remote {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

std::vector<double> shares(const std::vector<ShareClaim>& clients) {
  return client_shares(clients);
}

TEST(ClientShares, UsersShareByWeightWhateverAWorkerSavesThem) {
  EXPECT_THAT(shares({{.user = "ann", .weight = 3, .worth = 1, .asks = true},
                      {.user = "ben", .weight = 1, .worth = 9, .asks = true}}),
              ElementsAre(DoubleEq(0.75), DoubleEq(0.25)));
}

TEST(ClientShares, MoneyDecidesAmongThoseOfOneUser) {
  EXPECT_THAT(shares({{.user = "ann", .worth = 4, .asks = true},
                      {.user = "ann", .worth = 1, .asks = true},
                      {.user = "ben", .weight = 2, .worth = 1, .asks = true}}),
              ElementsAre(DoubleEq(0.4), DoubleEq(0.1), DoubleEq(0.5)));
}

TEST(ClientShares, WhomAWorkerSavesNothingHasSome) {
  EXPECT_THAT(shares({{.worth = 1e30, .asks = true}, {.worth = 0, .asks = true}}),
              ElementsAre(DoubleEq(8.0 / 9), DoubleEq(1.0 / 9)));
  EXPECT_THAT(shares({{.asks = true}, {.asks = true}}), ElementsAre(DoubleEq(0.5), DoubleEq(0.5)));
}

TEST(ClientShares, WhoDoesNotAskTakesNothingAndIsToldWhatItWouldHave) {
  EXPECT_THAT(shares({{.user = "ann", .worth = 1, .asks = true},
                      {.user = "ann", .worth = 1},
                      {.user = "ben", .weight = 3, .worth = 1}}),
              ElementsAre(DoubleEq(1), DoubleEq(0.5), DoubleEq(0.75)));
  EXPECT_THAT(shares({{.user = "ann"}}), ElementsAre(DoubleEq(1)));
}

TEST(ClientShares, AUsersWeightsMayBeBounded) {
  const std::vector<ShareClaim> clients{{.user = "ann", .weight = 3, .worth = 3, .asks = true},
                                        {.user = "ann", .weight = 5, .worth = 1, .asks = true},
                                        {.user = "ben", .weight = 0.5, .asks = true},
                                        {.user = "ben", .weight = 9},
                                        {.user = "carl", .weight = 9}};
  EXPECT_THAT(bounded_shares(clients, 1), ElementsAre(DoubleEq(0.5), DoubleEq(1.0 / 6), DoubleEq(1.0 / 3),
                                                      DoubleEq(0.25), DoubleEq(1.0 / 2.5)));
  EXPECT_EQ(bounded_shares(clients, 1e9), client_shares(clients));
}

TEST(ClientShares, ManyNamesHaveTogetherWhatOneHas) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 1000; ++round) {
    std::vector<ShareClaim> clients(3 + random() % 20);
    for (ShareClaim& client : clients)
      client = {.user = "ann",
                .weight = static_cast<double>(1 + random() % 100'000),
                .worth = static_cast<double>(random()),
                .asks = true};
    const std::size_t others = 1 + random() % (clients.size() - 2);  // the rest is of one host
    const auto had_by_others = [&] {
      double sum = 0;
      for (std::size_t i = 0; const double share : client_shares(clients)) sum += i++ < others ? share : 0;
      return sum;
    };
    std::vector<std::string> names;
    for (std::size_t i = 0; i < clients.size(); ++i) names.push_back(std::to_string(i));
    for (std::size_t i = others; i < clients.size(); ++i) clients[i].user = "one";
    const double before = had_by_others();
    for (std::size_t i = others; i < clients.size(); ++i) clients[i].user = names[i];
    EXPECT_NEAR(had_by_others(), before, 1e-9);
  }
}

TEST(ClientShares, WhoeverAsksHasSomeAndAllOfThemHaveAll) {
  std::mt19937_64 random(4);
  const std::array<std::string, 3> users{"", "ann", "ben"};
  for (int round = 0; round < 1000; ++round) {
    std::vector<ShareClaim> clients(1 + random() % 20);
    for (ShareClaim& client : clients)
      client = {.user = users[random() % 3],
                .weight = static_cast<double>(1 + random() % 100'000),
                .worth = static_cast<double>(random() % 3) * static_cast<double>(random()),
                .asks = random() % 2 == 1};
    double sum = 0;
    bool one_asks = false;
    const std::vector<double> found = client_shares(clients);
    ASSERT_EQ(found.size(), clients.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_GT(found[i], 0);
      EXPECT_LE(found[i], 1 + 1e-12);
      one_asks |= clients[i].asks;
      if (clients[i].asks) sum += found[i];
    }
    EXPECT_NEAR(sum, one_asks ? 1 : 0, 1e-9);
  }
}

}  // namespace
}  // namespace carya::remote
