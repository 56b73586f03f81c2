// Orders with other bits: `rounding` within one level per exchange, `relaxed` with the declared shapes,
// verdicts and random numbers and pictures of the same kind. This is what a wrong trait of an op fails on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "tests/amount.h"
#include "tests/transforms/drawn_chains.h"
#include "tests/transforms/samples_test_lib.h"

namespace carya::transforms::testing {
namespace {

constexpr const char* kEnding =
    R"({"op":"center_crop","size":[40,46]},{"op":"to_dtype","dtype":"uint8","scale":true})";

int largest_difference(const Bytes& a, const Bytes& b) {
  int most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(std::to_integer<int>(a[i]) - std::to_integer<int>(b[i])));
  return most;
}

/// The op's place inside of others too: names that a chain has twice have other numbers when they are written
/// the other way round.
std::map<std::string, int> names_of(const Op& op) {
  std::map<std::string, int> names{{op.name(), 1}};
  for (const auto& inner : op.inner())
    for (const auto& [name, count] : names_of(*inner)) names[name] += count;
  return names;
}

bool share_a_name(const Pipeline& pipeline) {
  std::map<std::string, int> all;
  for (const auto& op : pipeline.ops())
    for (const auto& [name, count] : names_of(*op))
      if ((all[name] += count) > 1) return true;
  return false;
}

/// The same ops written in the order in which they run.
std::string written_in(const Pipeline& pipeline, const Order& order) {
  std::string ops;
  for (const std::size_t i : order) ops += (ops.empty() ? "" : ",") + pipeline.ops()[i]->json();
  return document(ops);
}

/// How many pairs that commute within one unit an order turns round.
int rounding_exchanges(const Pipeline& pipeline, const Order& order) {
  int count = 0;
  for (std::size_t a = 0; a < order.size(); ++a)
    for (std::size_t b = a + 1; b < order.size(); ++b)
      count += order[a] > order[b] &&
               commutes(*pipeline.ops()[order[b]], *pipeline.ops()[order[a]]) == Commutes::kRounding;
  return count;
}

class Pairs {
 public:
  /// All pairs of picture ops that commute so far, each with the plans of both orders.
  template <typename F>
  static std::size_t each(Commutes how, F&& look) {
    std::size_t count = 0;
    for (const std::string& first : picture_ops())
      for (const std::string& second : picture_ops()) {
        const auto parsed =
            Pipeline::parse(document(R"({"op":"decode_image"},)" + first + "," + second + "," + kEnding));
        if (!parsed) continue;
        if (commutes(*(*parsed)->ops()[1], *(*parsed)->ops()[2]) != how) continue;
        // Two cuts to different sizes: the planner sees that their sizes do not commute.
        const auto there = Plan::compile(*parsed, {});
        const auto back = Plan::compile(*parsed, {.order = {0, 2, 1, 3, 4}});
        EXPECT_TRUE(there && back) << first << second << (back ? "" : back.error().message);
        if (!there || !back) continue;
        if (count++ % static_cast<std::size_t>(one_case_of(4)) == 0)
          look(**parsed, **there, **back, first + " and " + second);
      }
    return count;
  }
};

TEST(InexactOrder, EveryPairThatIsDeclaredRoundingIsWithinALevel) {
  std::vector<NamedBytes> pictures = test_pictures(30, 200'000);
  Scratch scratch;
  const std::size_t pairs = Pairs::each(
      Commutes::kRounding, [&](auto&, const Plan& there, const Plan& back, const std::string& what) {
        int most = 0;
        for (std::uint64_t record = 0; record < pictures.size(); ++record) {
          const std::vector<Bytes> inputs{pictures[record].bytes, label_bytes(0)};
          const Outcome a = run_guarded(there, scratch, {.record = record}, inputs);
          const Outcome b = run_guarded(back, scratch, {.record = record}, inputs);
          ASSERT_EQ(a.error.has_value(), b.error.has_value()) << what;
          if (!a.error) most = std::max(most, largest_difference(a.tensors[0], b.tensors[0]));
        }
        EXPECT_LE(most, 1) << what;
      });
  EXPECT_GE(pairs, 10U);
}

TEST(InexactOrder, RoundingAddsUpByTheExchanges) {
  const std::vector<NamedBytes> pictures = test_pictures(40, 200'000);
  // Ops that make no difference larger.
  const std::vector<std::string> calm = {
      R"({"op":"invert"})",
      R"({"op":"grayscale","num_output_channels":3})",
      R"({"op":"random_grayscale","p":0.5})",
      R"({"op":"gaussian_blur","kernel_size":[7,3],"sigma":[0.5,3]})",
      R"({"op":"random_horizontal_flip"})",
      R"({"op":"random_crop","size":[50,60],"pad_if_needed":true,"padding_mode":"edge"})",
      R"({"op":"random_apply","p":0.6,"ops":[{"op":"gaussian_blur","kernel_size":5},{"op":"random_vertical_flip"}]})",
  };
  Drawn drawn(11);
  Scratch scratch;
  int exchanged = 0;
  for (int round = 0; round < 150; ++round) {
    std::string ops = R"({"op":"decode_image"})";
    for (std::size_t i = 2 + drawn.below(4); i > 0; --i) ops += "," + calm[drawn.below(calm.size())];
    const auto pipeline = pipeline_of(document(ops + "," + kEnding));
    const Order order = drawn.exchanged(*pipeline, Commutes::kRounding);
    const int bound = rounding_exchanges(*pipeline, order);
    exchanged += bound > 0;
    const auto there = Plan::compile(pipeline, {.seed = 5});
    const auto back = Plan::compile(pipeline, {.seed = 5, .order = order});
    ASSERT_TRUE(there && back) << pipeline->to_json();
    for (std::uint64_t record = 0; record < 3; ++record) {
      const std::vector<Bytes> inputs{pictures[drawn.below(pictures.size())].bytes, label_bytes(0)};
      const Outcome a = run_guarded(**there, scratch, {.record = record}, inputs);
      const Outcome b = run_guarded(**back, scratch, {.record = record}, inputs);
      ASSERT_EQ(a.error.has_value(), b.error.has_value());
      if (a.error) continue;
      ASSERT_LE(largest_difference(a.tensors[0], b.tensors[0]), bound)
          << pipeline->to_json() << " as " << ::testing::PrintToString(order);
    }
  }
  EXPECT_GT(exchanged, 50);
}

// What a picture is to a model that looks at it roughly: how bright it is, and how much it varies.
struct Kind {
  double mean = 0;
  double deviation = 0;

  void add(const Bytes& pixels, double share) {
    double sum = 0, squares = 0;
    for (const std::byte value : pixels) {
      sum += std::to_integer<int>(value);
      squares += std::to_integer<int>(value) * std::to_integer<int>(value);
    }
    const double count = static_cast<double>(pixels.size());
    mean += share * sum / count;
    deviation += share * std::sqrt(std::max(0.0, squares / count - sum / count * (sum / count)));
  }
};

TEST(InexactOrder, EveryPairThatIsDeclaredRelaxedKeepsShapesVerdictsNumbersAndTheKind) {
  // Tiny and narrow ones too, for the verdicts; their kind says nothing.
  std::vector<NamedBytes> pictures = test_pictures(30, 60'000);
  const auto has_a_kind = [](const NamedBytes& picture) { return !picture.name.starts_with("made"); };
  const auto kinds = static_cast<double>(std::ranges::count_if(pictures, has_a_kind));
  Scratch scratch;
  std::size_t with_own_names = 0;
  const std::size_t pairs = Pairs::each(Commutes::kRelaxed, [&](const Pipeline& pipeline, const Plan& there,
                                                                const Plan& back, const std::string& what) {
    Kind declared, relaxed;
    // Written in the other order, ops have the same names and so the same random numbers.
    std::shared_ptr<const Plan> written;
    if (!share_a_name(pipeline)) written = plan_of(written_in(pipeline, {0, 2, 1, 3, 4}));
    with_own_names += written != nullptr;
    for (std::uint64_t record = 0; record < pictures.size(); ++record) {
      const std::vector<Bytes> inputs{pictures[record].bytes, label_bytes(0)};
      const Outcome a = run_guarded(there, scratch, {.record = record}, inputs);
      const Outcome b = run_guarded(back, scratch, {.record = record}, inputs);
      ASSERT_EQ(a.error.has_value(), b.error.has_value()) << what << pictures[record].name;
      if (a.error) continue;
      if (has_a_kind(pictures[record])) {
        declared.add(a.tensors[0], 1 / kinds);
        relaxed.add(b.tensors[0], 1 / kinds);
      }
      if (!written) continue;
      ASSERT_EQ(run_guarded(*written, scratch, {.record = record}, inputs).tensors, b.tensors)
          << what << pictures[record].name;
    }
    EXPECT_NEAR(declared.mean, relaxed.mean, 16) << what;
    EXPECT_NEAR(declared.deviation, relaxed.deviation, 16) << what;
  });
  EXPECT_GT(pairs, 80U);
  EXPECT_GT(with_own_names * static_cast<std::size_t>(one_case_of(4)), 80U);
}

TEST(InexactOrder, EveryRelaxedOrderOfAChainRunsAsItWouldWrittenSo) {
  const std::vector<NamedBytes> pictures = test_pictures(40, 200'000);
  Drawn drawn(3);
  Scratch scratch;
  std::size_t reordered = 0, compared = 0;
  for (int round = 0; round < 400; ++round) {
    const auto parsed = Pipeline::parse(document(drawn.chain(2 + drawn.below(4))));
    if (!parsed) continue;
    const auto& pipeline = *parsed;
    const Order order = drawn.exchanged(*pipeline, Commutes::kRelaxed);
    if (std::ranges::is_sorted(order)) continue;
    const auto there = Plan::compile(pipeline, {.seed = 5});
    const auto back = Plan::compile(pipeline, {.seed = 5, .order = order});
    ASSERT_TRUE(there);
    ASSERT_TRUE(back) << pipeline->to_json() << back.error().message;
    ++reordered;
    const auto written =
        share_a_name(*pipeline) ? nullptr : plan_of(written_in(*pipeline, order), {.seed = 5});
    for (std::uint64_t record = 0; record < 2; ++record) {
      const std::vector<Bytes> inputs{pictures[drawn.below(pictures.size())].bytes, label_bytes(0)};
      const Outcome a = run_guarded(**there, scratch, {.record = record}, inputs);
      const Outcome b = run_guarded(**back, scratch, {.record = record}, inputs);
      ASSERT_EQ(a.error.has_value(), b.error.has_value()) << pipeline->to_json();
      if (a.error || !written) continue;
      ++compared;
      ASSERT_EQ(run_guarded(*written, scratch, {.record = record}, inputs).tensors, b.tensors)
          << pipeline->to_json() << " as " << ::testing::PrintToString(order);
    }
  }
  EXPECT_GT(reordered, 150U);
  EXPECT_GT(compared, 50U);
}

}  // namespace
}  // namespace carya::transforms::testing
