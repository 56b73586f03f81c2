#include "transforms/kernels/codec/field_index.h"

#include <gtest/gtest.h>

#include <random>

#include "base/hash.h"
#include "tests/transforms/samples_test_lib.h"
#include "transforms/jpeg/index.h"

namespace carya::transforms::testing {
namespace {

using IndexBytes = std::vector<std::uint8_t>;

constexpr char kDecodeAndCrop[] = R"({"op":"decode_image"},{"op":"random_resized_crop","size":[48,48]})";

std::span<const std::byte> known(const IndexBytes& bytes) {
  return std::as_bytes(std::span(bytes));
}

/// A picture's stream over epochs, with what is stored for it between them.
class Decodes {
 public:
  explicit Decodes(Bytes image, int spacing = 0, const std::string& ops = kDecodeAndCrop)
      : image_(std::move(image)), label_(label_bytes(3)), plan_(plan_of(document(ops))) {
    field_.spacing = spacing;
    for (const TensorSpec& spec : plan_->outputs())
      memory_.emplace_back(static_cast<std::size_t>(spec.bytes()));
  }

  Bytes without(std::uint64_t epoch) {
    run(epoch, {});
    return memory_[0];
  }
  /// With the index `stored`, which is replaced by what was made.
  Bytes with(std::uint64_t epoch, IndexBytes& stored, bool verify = false) {
    std::array<FieldIndex, 2> indexes{field_, {}};
    indexes[0].known = known(stored);
    indexes[0].verify = verify;
    run(epoch, indexes);
    use = indexes[0].use;
    if (!indexes[0].made.empty()) stored = indexes[0].made;
    EXPECT_TRUE(indexes[1].made.empty()) << "a label has no index";
    return memory_[0];
  }
  const Bytes& image() const { return image_; }
  IndexUse use = IndexUse::kNone;
  std::string error;
  Scratch scratch;

 private:
  void run(std::uint64_t epoch, std::span<FieldIndex> indexes) {
    const std::array<std::span<const std::byte>, 2> inputs{image_, label_};
    const std::array<std::byte*, 2> outputs{memory_[0].data(), memory_[1].data()};
    const Status status = plan_->run(scratch, {.epoch = epoch, .record = 7}, inputs, outputs, indexes);
    error = status ? "" : status.error().message;
    if (!status) memory_[0].assign(memory_[0].size(), std::byte{});  // unspecified after an error
  }

  Bytes image_;
  Bytes label_;
  std::shared_ptr<const Plan> plan_;
  FieldIndex field_;
  std::vector<Bytes> memory_;
};

IndexBytes complete_index(const Bytes& image, int spacing) {
  IndexMaker maker;
  FieldIndex field{.spacing = spacing};
  EXPECT_TRUE(maker.complete(image, field));
  return field.made;
}

/// The index with one point moved by a bit and all checksums right: what only verification can find.
IndexBytes forged(const IndexBytes& honest, std::size_t point, const Bytes& image) {
  jpeg::Index index;
  EXPECT_TRUE(index.read(honest));
  std::vector<jpeg::IndexPoint> points(index.points().begin(), index.points().end());
  points[point].dc[0] = static_cast<std::int16_t>(points[point].dc[0] + 40);
  jpeg::Header header;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(image.data());
  EXPECT_EQ(jpeg::read_header({bytes, image.size()}, header), jpeg::Ordinary::kOrdinary);
  index.bind(header, image.size(), hash64(image));
  for (const jpeg::IndexPoint& p : points) index.append(p);
  IndexBytes out;
  index.write(out);
  return out;
}

TEST(DecodeIndex, ChangesNoBitInAnyEpoch) {
  for (const NamedBytes& picture : test_pictures(9, 400'000)) {
    for (const int spacing : {0, 8, 16}) {
      Decodes decodes(picture.bytes, spacing);
      IndexBytes stored;
      for (std::uint64_t epoch = 0; epoch < 6; ++epoch) {
        const Bytes expected = decodes.without(epoch);
        const std::string verdict = decodes.error;
        ASSERT_EQ(decodes.with(epoch, stored), expected)
            << picture.name << ", spacing " << spacing << ", epoch " << epoch;
        ASSERT_EQ(decodes.error, verdict);
      }
    }
  }
}

TEST(DecodeIndex, IsMadeOnceThenUsedAndGrows) {
  Decodes decodes(make_jpeg(300, 400));
  IndexMaker maker;
  IndexBytes stored;
  decodes.with(0, stored);
  EXPECT_EQ(decodes.use, IndexUse::kNone);
  ASSERT_FALSE(stored.empty());
  std::uint64_t points = maker.facts(known(stored))->points;
  for (std::uint64_t epoch = 1; epoch < 20; ++epoch) {
    decodes.with(epoch, stored);
    EXPECT_EQ(decodes.use, IndexUse::kUsed);
    const std::uint64_t now = maker.facts(known(stored))->points;
    EXPECT_GE(now, points);
    points = now;
  }
  EXPECT_EQ(points, 400u / 16);
  EXPECT_EQ(stored, complete_index(decodes.image(), 0));
}

TEST(DecodeIndex, OthersAndDamagedOnesAreRefusedAndReplaced) {
  const Bytes image = make_jpeg(300, 400);
  const IndexBytes right = complete_index(image, 8);
  std::vector<IndexBytes> wrong{complete_index(make_jpeg(300, 400, 3, false, 2, 1, 2), 8),  // another photo's
                                complete_index(make_jpeg(301, 90, 1), 8),
                                {0},
                                IndexBytes(5000, 0xFF)};
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    IndexBytes broken = right;
    if (i % 3 == 0) broken.resize(random() % broken.size() + 1);
    for (int k = 0; k < 3; ++k)
      broken[random() % broken.size()] ^= static_cast<std::uint8_t>(1 + random() % 255);
    wrong.push_back(broken);
    for (auto& byte : broken) byte = static_cast<std::uint8_t>(random());
    wrong.push_back(broken);
  }
  Decodes decodes(image, 8);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    IndexBytes stored = wrong[i];
    ASSERT_EQ(decodes.with(i, stored), decodes.without(i));
    ASSERT_EQ(decodes.error, "");
    EXPECT_EQ(decodes.use, IndexUse::kRefused);
    EXPECT_NE(stored, wrong[i]);
    ASSERT_EQ(decodes.with(i, stored), decodes.without(i));
    EXPECT_EQ(decodes.use, IndexUse::kUsed);
  }
}

TEST(DecodeIndex, VerificationDeliversTheRightBitsAndHealsTheEntry) {
  const Bytes image = make_jpeg(300, 400);
  const IndexBytes right = complete_index(image, 0);
  std::size_t unseen = 0;
  for (std::size_t point = 1; point < 25; ++point) {
    const IndexBytes lie = forged(right, point, image);
    Decodes decodes(image);
    for (std::uint64_t epoch = 0; epoch < 8; ++epoch) {
      IndexBytes stored = lie;
      const Bytes expected = decodes.without(epoch);
      ASSERT_EQ(decodes.with(epoch, stored, true), expected) << "verified";
      if (decodes.use == IndexUse::kUsed) continue;  // the lie is below this crop
      ASSERT_NE(stored, lie);
      ASSERT_EQ(decodes.with(epoch, stored, true), expected);
      EXPECT_EQ(decodes.use, IndexUse::kUsed);
      stored = lie;
      unseen += decodes.with(epoch, stored, false) != expected;
    }
  }
  EXPECT_GT(unseen, 0u) << "the forgery would show without verification, so the test can fail";
}

// Verification that is given up has compared nothing: the index is neither a liar nor better than it was.
TEST(DecodeIndex, VerificationThatIsGivenUpSaysNothing) {
  const Bytes image = make_jpeg(2000, 2000);
  const IndexBytes right = complete_index(image, 0);
  Decodes decodes(image, 0, R"({"op":"decode_image"},{"op":"resize","size":[48,48]})");
  int asked = 0;
  decodes.scratch.set_go_on([&] { return ++asked > 0; });
  IndexBytes stored = right;
  decodes.with(0, stored, false);
  const int without = asked;
  asked = 0;
  decodes.with(0, stored, true);
  const int all = asked;
  EXPECT_GE(all, without + 2) << "asked inside of it";
  for (int until = 1; until <= all; ++until) {
    asked = 0;
    decodes.scratch.set_go_on([&] { return ++asked < until; });
    decodes.with(0, stored, true);
    EXPECT_NE(decodes.use, IndexUse::kMismatch) << until;
    EXPECT_EQ(stored, right) << until;
    EXPECT_NE(decodes.error, "") << until;
  }
}

TEST(DecodeIndex, CoarserOnesAreMadeAnewAndFinerOnesStay) {
  const Bytes image = make_jpeg(500, 300);
  Decodes fine(image, 8);
  IndexBytes stored = complete_index(image, 0);
  fine.with(0, stored);
  IndexMaker maker;
  EXPECT_EQ(maker.facts(known(stored))->spacing, 8);
  Decodes rows(image, 0);
  stored = complete_index(image, 8);
  const IndexBytes before = stored;
  rows.with(0, stored);
  EXPECT_EQ(stored, before);
  EXPECT_EQ(rows.use, IndexUse::kUsed);
}

TEST(DecodeIndex, IsNotMadeForOthersThanOrdinaryJpegs) {
  for (const Bytes& image : {make_jpeg(200, 200, 3, true), make_jpeg(200, 200, 1, true)}) {
    Decodes decodes(image);
    IndexBytes stored = complete_index(make_jpeg(200, 200), 0);
    const IndexBytes before = stored;
    EXPECT_EQ(decodes.with(0, stored), decodes.without(0));
    EXPECT_EQ(stored, before);
    EXPECT_EQ(decodes.use, IndexUse::kNone);
  }
}

TEST(DecodeIndex, MakerCompletesWhatIsKnown) {
  const Bytes image = make_jpeg(300, 400);
  for (const int spacing : {0, 8}) {
    Decodes decodes(image, spacing);
    IndexBytes partial;
    decodes.with(0, partial);
    IndexMaker maker;
    FieldIndex field{.known = known(partial), .spacing = spacing};
    ASSERT_TRUE(maker.complete(image, field));
    EXPECT_EQ(field.use, IndexUse::kUsed);
    const IndexBytes whole = field.made;
    EXPECT_EQ(whole, complete_index(image, spacing));
    field.known = known(whole);
    ASSERT_TRUE(maker.complete(image, field));
    EXPECT_TRUE(field.made.empty()) << "nothing to add";
    EXPECT_EQ(maker.facts(known(whole))->points, maker.facts(known(whole))->points_max);
  }
  IndexMaker maker;
  FieldIndex field;
  EXPECT_FALSE(maker.complete(make_jpeg(90, 90, 3, true), field));
  EXPECT_FALSE(maker.complete(Bytes(100), field));
}

}  // namespace
}  // namespace carya::transforms::testing
