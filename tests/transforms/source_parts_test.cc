// Records that are kept before the first op, with packed coefficients in the place of their JPEGs, fare as the records do:
// the same bits, verdicts and warnings. What is not whole is said to be so, and touches nothing outside.
#include "transforms/plan/source_parts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "tests/amount.h"
#include "tests/jpeg_writer.h"
#include "tests/transforms/samples_test_lib.h"
#include "transforms/simd/targets.h"

namespace carya::transforms::testing {
namespace {

const std::string kUprightCrop =
    R"({"op":"decode_image","apply_exif":true},{"op":"random_resized_crop","size":[24,31]},)"
    R"({"op":"random_horizontal_flip"})";
const std::string kGray = R"({"op":"decode_image","mode":"L"},{"op":"resize","size":[20,30]})";
const std::string kViews =
    R"({"op":"decode_image"},{"op":"two_views","ops":[{"op":"random_resized_crop","size":[16,16]}]})";

constexpr std::size_t kPackedAt = 0, kBytesAt = 8;  // in a field that is kept

std::uint64_t word_at(const Bytes& bytes, std::size_t at) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

SourceParts parts_of(const std::string& ops) {
  auto parts = part_at_source(pipeline_of(document(ops)), {.seed = 5});
  EXPECT_TRUE(parts) << (parts ? "" : parts.error().message);
  return *parts;
}

/// The record as it is kept; empty: it is not.
Bytes kept_of(const SourceParts& parts, Scratch& scratch, const std::vector<Bytes>& record) {
  std::vector<Bytes> readable = record;
  std::vector<std::span<const std::byte>> inputs;
  for (Bytes& bytes : readable) {
    bytes.push_back({});  // behind the end
    inputs.emplace_back(bytes.data(), bytes.size() - 1);
  }
  Bytes kept;
  const Status made = parts.before->pack(scratch, {}, inputs, [&](std::uint64_t bytes) {
    kept.resize(bytes);
    return kept.data();
  });
  return made ? kept : Bytes();
}

Outcome run_kept(const SourceParts& parts, Scratch& scratch, const SampleId& id, const Bytes& kept) {
  std::vector<std::span<const std::byte>> fields(parts.behind->inputs().size());
  parts.behind->unpack(kept, fields);
  std::vector<Bytes> inputs;
  for (const auto& field : fields) inputs.emplace_back(field.begin(), field.end());
  return run_guarded(*parts.behind, scratch, id, inputs);
}

DecodePaths decodes(const Plan& plan, Scratch& scratch) {
  DecodePaths paths;
  plan.collect_decodes(scratch, paths);
  return paths;
}

/// The record and what is kept of it have the same fate. Returns whether coefficients were kept.
bool expect_alike(const std::string& ops, const NamedBytes& file) {
  const auto whole = plan_of(document(ops), {.seed = 5});
  const SourceParts parts = parts_of(ops);
  Scratch plain, scratch;
  const std::vector<Bytes> record{file.bytes, label_bytes(7)};
  const Bytes kept = kept_of(parts, scratch, record);
  const bool packed = !kept.empty() && word_at(kept, kPackedAt) == 1;
  EXPECT_EQ(decodes(*parts.behind, scratch).warnings, 0U)
      << "to keep a record warns of nothing: " << file.name;
  EXPECT_TRUE(kept.empty() || parts.behind->can_unpack(kept)) << file.name;
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    const SampleId id{.epoch = epoch, .record = 9};
    const Outcome expected = run_guarded(*whole, plain, id, record);
    const DecodePaths paths = decodes(*whole, plain);
    if (kept.empty()) {
      EXPECT_TRUE(expected.error) << file.name;
      continue;
    }
    const Outcome found = run_kept(parts, scratch, id, kept);
    EXPECT_EQ(found.error.has_value(), expected.error.has_value()) << file.name;
    if (found.error && expected.error) {
      EXPECT_EQ(found.error->code, expected.error->code) << file.name;
      EXPECT_EQ(found.error->message, expected.error->message) << file.name;
    }
    EXPECT_EQ(found.tensors, expected.tensors) << file.name;
    const DecodePaths again = decodes(*parts.behind, scratch);
    EXPECT_EQ(again.warnings, paths.warnings) << file.name;
    EXPECT_EQ(again.packed > 0, packed) << file.name;
    EXPECT_FALSE(packed && paths.warnings > 0) << file.name;
  }
  return packed;
}

TEST(SourceParts, PicturesFareAsTheirFiles) {
  int packed = 0, files = 0;
  for (const NamedBytes& file : test_pictures(long_tests() ? 1 : 40, long_tests() ? 64 << 20 : 300'000)) {
    for (const std::string& ops : {kUprightCrop, kGray, kViews}) packed += expect_alike(ops, file);
    files += 3;
    if (HasFailure()) return;
  }
  EXPECT_GT(packed, files / 3);  // the others are PNG, or unusual
}

TEST(SourceParts, MalformedFilesFareAlike) {
  for (const NamedBytes& file : malformed_files()) {
    expect_alike(kUprightCrop, file);
    if (HasFailure()) return;
  }
}

TEST(SourceParts, EveryTargetHasTheSamePixels) {
  const Bytes picture = make_jpeg(190, 170);
  const SourceParts parts = parts_of(kUprightCrop);
  Scratch scratch;
  const Bytes kept = kept_of(parts, scratch, {picture, label_bytes(1)});
  const Outcome expected =
      run_guarded(*plan_of(document(kUprightCrop), {.seed = 5}), scratch, {}, {picture, label_bytes(1)});
  for (const std::string& target : simd_targets()) {
    ASSERT_TRUE(force_simd_target(target));
    EXPECT_EQ(kept_of(parts, scratch, {picture, label_bytes(1)}), kept) << target;
    EXPECT_EQ(run_kept(parts, scratch, {}, kept).tensors, expected.tensors) << target;
  }
  ASSERT_TRUE(force_simd_target(""));
}

/// A plain picture, of which coefficients take more bytes than the file.
Bytes plain_jpeg() {
  return write_jpeg(400, 600, 3, 60, [](std::size_t, std::span<unsigned char> row) {
    std::ranges::fill(row, static_cast<unsigned char>(99));
  });
}

TEST(SourceParts, AFileWhoseCoefficientsAreTooManyIsKeptWithItsWholeIndex) {
  const SourceParts parts = parts_of(kUprightCrop);
  Scratch scratch;
  const Bytes file = plain_jpeg();
  const Bytes kept = kept_of(parts, scratch, {file, label_bytes(3)});
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(word_at(kept, kPackedAt), 0U);
  EXPECT_EQ(word_at(kept, kBytesAt), file.size());
  EXPECT_FALSE(expect_alike(kUprightCrop, {"plain", file}));
  ASSERT_FALSE(run_kept(parts, scratch, {}, kept).error);
  const DecodePaths paths = decodes(*parts.behind, scratch);
  EXPECT_EQ(paths.own, 1U);
  EXPECT_EQ(paths.indexed, 1U) << "it began at a point of the index";
}

TEST(SourceParts, AKnownIndexIsKeptToo) {
  const Bytes file = plain_jpeg();
  FieldIndex index;
  index.spacing = 8;
  IndexMaker maker;
  ASSERT_TRUE(maker.complete(file, index));
  const SourceParts parts = parts_of(kUprightCrop);
  Scratch scratch;
  std::vector<FieldIndex> given(2);
  given[0].known = std::as_bytes(std::span(index.made));
  given[0].made = {1, 2, 3};  // of a record before it
  given[0].use = IndexUse::kUsed;
  const Bytes label = label_bytes(1);
  Bytes kept;
  const std::vector<std::span<const std::byte>> inputs{file, label};
  ASSERT_TRUE(parts.before->pack(
      scratch, {}, inputs,
      [&](std::uint64_t bytes) {
        kept.resize(bytes);
        return kept.data();
      },
      given));
  EXPECT_TRUE(given[0].made.empty());
  EXPECT_EQ(given[0].use, IndexUse::kNone);
  const auto end = kept.begin() + 32 + static_cast<std::ptrdiff_t>(file.size()) + 64;
  EXPECT_TRUE(std::equal(given[0].known.begin(), given[0].known.end(), end));
}

TEST(SourceParts, OtherFieldsStandBesideThePicture) {
  const std::string source =
      R"({"type":"files","paths":["a"],"labels":[1],"extra":{"mask":["b"]},)"
      R"("arrays":{"boxes":{"dtype":"float32","shape":[4],"fingerprint":"","rows_max":9}}})";
  const std::string ops =
      R"({"op":"decode_image","fields":["image","mask"]},{"op":"boxes"},{"op":"random_crop","size":[50,50]})";
  const auto pipeline = pipeline_of(document(ops, R"({"batch_size":2})", source));
  const auto parts = part_at_source(pipeline, {.seed = 5});
  ASSERT_TRUE(parts) << parts.error().message;
  EXPECT_EQ(parts->packed.size(), 2U);
  const auto whole = Plan::compile(pipeline, {.seed = 5});
  ASSERT_TRUE(whole);
  Scratch scratch;
  for (const std::size_t objects : {0U, 2U}) {
    std::vector<Bytes> record;
    for (const SourceField& field : (*whole)->inputs()) {
      if (field.kind == SourceField::Kind::kLabel)
        record.push_back(label_bytes(4));
      else if (field.kind == SourceField::Kind::kTensor)
        record.emplace_back(objects * 16, std::byte{0});
      else
        record.push_back(make_jpeg(90, 70, field.spec.name == "mask" ? 1 : 3));
    }
    const Bytes kept = kept_of(*parts, scratch, record);
    ASSERT_TRUE((*parts).behind->can_unpack(kept));
    const Outcome expected = run_guarded(**whole, scratch, {.record = 3}, record);
    const Outcome found = run_kept(*parts, scratch, {.record = 3}, kept);
    ASSERT_FALSE(expected.error) << expected.error->message;
    ASSERT_FALSE(found.error) << found.error->message;
    EXPECT_EQ(found.tensors, expected.tensors);
  }
}

TEST(SourceParts, WhatIsNotWholeIsSaidToBeSo) {
  const SourceParts parts = parts_of(kUprightCrop);
  Scratch scratch;
  std::mt19937_64 random(3);
  std::set<Code> codes;
  for (const Bytes& file : {make_jpeg(90, 70), plain_jpeg()}) {
    const Bytes kept = kept_of(parts, scratch, {file, label_bytes(3)});
    ASSERT_TRUE(parts.behind->can_unpack(kept));
    for (std::size_t cut = 0; cut < kept.size(); cut += 1 + kept.size() / 200) {
      const Bytes part(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(cut));
      EXPECT_FALSE(parts.behind->can_unpack(part)) << cut;
      const Outcome outcome = run_kept(parts, scratch, {}, part);
      ASSERT_TRUE(outcome.error);
      EXPECT_EQ(outcome.error->code, Code::kNotFound) << cut;
    }
    for (int round = 0; round < (long_tests() ? 20'000 : 500); ++round) {
      Bytes changed = kept;
      const std::size_t reach = round % 2 == 0 ? 256 : kept.size();
      for (int i = 0; i < 1 + round % 4; ++i)
        changed[random() % reach] ^= static_cast<std::byte>(1U << random() % 8);
      const Outcome outcome = run_kept(parts, scratch, {}, changed);
      if (outcome.error) codes.insert(outcome.error->code);
    }
  }
  // kCorrupt: of a file that was kept as it is, and changed.
  EXPECT_EQ(codes, (std::set<Code>{Code::kCorrupt, Code::kNotFound}));
}

TEST(SourceParts, RecordsThatAreKeptAsTheyWereReadAreTheInputsAgain) {
  const std::string source =
      R"({"type":"files","paths":["a"],"labels":[1],"extra":{"mask":["b"]},)"
      R"("arrays":{"boxes":{"dtype":"float32","shape":[4],"fingerprint":"","rows_max":9}}})";
  const auto pipeline =
      pipeline_of(document(R"({"op":"decode_image"},{"op":"boxes"})", R"({"batch_size":2})", source));
  const auto parts = part_records(*pipeline);
  ASSERT_TRUE(parts) << parts.error().message;
  Scratch scratch;
  std::mt19937_64 random(5);
  for (const std::size_t bytes : {0U, 1U, 63U, 5000U}) {
    std::vector<Bytes> record;
    for (const SourceField& field : pipeline->fields()) {
      record.emplace_back(field.kind == SourceField::Kind::kLabel    ? 8
                          : field.kind == SourceField::Kind::kTensor ? 32
                                                                     : bytes);
      for (std::byte& one : record.back()) one = static_cast<std::byte>(random());
    }
    const Bytes kept = kept_of(*parts, scratch, record);
    ASSERT_TRUE(parts->behind->can_unpack(kept));
    std::vector<std::span<const std::byte>> inputs(record.size());
    parts->behind->unpack(kept, inputs);
    for (std::size_t f = 0; f < record.size(); ++f) {
      EXPECT_TRUE(std::ranges::equal(inputs[f], record[f])) << f;
      if (pipeline->fields()[f].kind != SourceField::Kind::kEncoded) continue;
      ASSERT_LE(inputs[f].data() + inputs[f].size() + 64, kept.data() + kept.size())
          << "decoders look behind it";
      EXPECT_EQ(inputs[f].data()[inputs[f].size()], std::byte{0});
    }
    for (std::size_t cut = 0; cut < kept.size(); cut += 1 + kept.size() / 100) {
      const Bytes part(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(cut));
      EXPECT_FALSE(parts->behind->can_unpack(part)) << cut;
      parts->behind->unpack(part, inputs);
      for (const auto& input : inputs)
        EXPECT_TRUE(input.empty() || (input.data() >= part.data() &&
                                      input.data() + input.size() <= part.data() + part.size()));
    }
    for (int round = 0; round < 500; ++round) {
      Bytes changed = kept;
      changed[random() % std::min<std::size_t>(changed.size(), 256)] ^=
          static_cast<std::byte>(1U << random() % 8);
      parts->behind->unpack(changed, inputs);
      for (const auto& input : inputs)
        EXPECT_TRUE(input.empty() || (input.data() >= changed.data() &&
                                      input.data() + input.size() <= changed.data() + changed.size()));
    }
  }
}

TEST(SourceParts, RecordsInMemoryAreNotKeptOnceMore) {
  const auto pipeline = pipeline_of(document(
      R"({"op":"to_dtype","dtype":"float32","fields":["x"]})", R"({"batch_size":2})",
      R"({"type":"arrays","count":1,"arrays":{"x":{"dtype":"uint8","shape":[4],"fingerprint":""}}})"));
  const auto refused = part_records(*pipeline);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
}

TEST(SourceParts, AnEntryUnderALowerLimitIsNotTaken) {
  Scratch scratch;
  const std::vector<Bytes> record{make_jpeg(90, 70), label_bytes(3)};
  const Bytes kept = kept_of(parts_of(kUprightCrop), scratch, record);
  const auto low = part_at_source(pipeline_of(document(kUprightCrop)), {.image_pixels_max = 1000});
  ASSERT_TRUE(low);
  EXPECT_TRUE(kept_of(*low, scratch, record).empty());
  const Outcome outcome = run_kept(*low, scratch, {}, kept);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Code::kNotFound) << "the file says what is wrong with it";
}

TEST(SourceParts, PlansThatTakeOtherThingsAreRefused) {
  const auto refused = [](const std::string& json, const PlanOptions& options) {
    const auto parts = part_at_source(pipeline_of(json), options);
    return !parts && parts.error().code == Code::kUnsupported;
  };
  EXPECT_TRUE(refused(document(kUprightCrop), {.fuse = false}));
  EXPECT_TRUE(refused(document(R"({"op":"resize","size":[8,8]})", R"({"batch_size":2})",
                               R"({"type":"arrays","arrays":{"image":{"dtype":"uint8","shape":[9,9,3],)"
                               R"("fingerprint":""}},"count":3})"),
                      {}));
}

TEST(SourceParts, WithoutMemoryIsNoFaultOfTheRecord) {
  const SourceParts parts = parts_of(kUprightCrop);
  Scratch scratch;
  const Bytes picture = make_jpeg(90, 70), label = label_bytes(1);
  const std::vector<std::span<const std::byte>> inputs{picture, label};
  const Status made = parts.before->pack(scratch, {}, inputs, [](std::uint64_t) { return nullptr; });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kExhausted);
}

}  // namespace
}  // namespace carya::transforms::testing
