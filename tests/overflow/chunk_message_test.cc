#include "loader/wire/chunk_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace carya::loader {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// An encoded field, and one of three bytes.
const std::vector<transforms::SourceField>& fields() {
  static const std::vector<transforms::SourceField> kFields{
      {.kind = transforms::SourceField::Kind::kEncoded, .spec = {"image", DType::kUint8, {-1}}},
      {.kind = transforms::SourceField::Kind::kTensor, .spec = {"row", DType::kUint8, {3}}}};
  return kFields;
}

std::vector<std::byte> payload_of(const std::vector<RemoteRow>& rows, const std::vector<std::string>& inputs,
                                  const std::vector<std::string>& entries = {}) {
  RemoteInputs sent{.rows = rows, .inputs = {}};
  for (const std::string& input : inputs) sent.inputs.push_back(bytes_of(input));
  for (const std::string& entry : entries) sent.entries.push_back(bytes_of(entry));
  std::vector<std::byte> payload = remote_table(fields(), sent);
  for (const auto part : remote_parts(fields(), sent))
    payload.insert(payload.end(), part.begin(), part.end());
  return payload;
}

TEST(ChunkMessage, SurvivesTheWay) {
  const RemotePlan plan{.id = 3,
                        .pipeline = "{}",
                        .fingerprint = {.high = UINT64_MAX, .low = 1},
                        .seed = 9,
                        .order = {1, 0},
                        .cut = 2};
  const auto back = decode_remote<RemotePlan>(bytes_of(encode_remote(plan)));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->fingerprint, plan.fingerprint);
  EXPECT_EQ(back->order, plan.order);
  EXPECT_EQ(back->cut, 2U);
  const auto chunk = decode_remote<RemoteChunk>(bytes_of(encode_remote(RemoteChunk{4, 5, 6})));
  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->epoch, 5U);
  const auto result = decode_remote<RemoteResult>(bytes_of(encode_remote(RemoteResult{{1, 4}})));
  ASSERT_TRUE(result);
  EXPECT_THAT(result->broken, ::testing::ElementsAre(1, 4));
}

TEST(ChunkMessage, RefusesRangesThatCannotBe) {
  const auto error_of = [](const auto& document) {
    const auto back =
        decode_remote<std::remove_cvref_t<decltype(document)>>(bytes_of(encode_remote(document)));
    return back ? std::string("taken") : back.error().message;
  };
  EXPECT_THAT(error_of(RemoteChunk{.rows = 0}), HasSubstr("rows"));
  EXPECT_THAT(error_of(RemoteChunk{.rows = kRemoteRowsMax + 1}), HasSubstr("rows"));
  EXPECT_THAT(error_of(RemotePlan{.order = {0, 1}, .cut = 3}), HasSubstr("cut"));
  EXPECT_THAT(error_of(RemotePlan{.order = {0, 1}, .cut = 0}), HasSubstr("cut"));
  EXPECT_THAT(error_of(RemoteResult{{4, 4}}), HasSubstr("broken"));
  EXPECT_FALSE(decode_remote<RemoteChunk>(bytes_of("no CBOR")));
}

TEST(ChunkMessage, InputsAreThoseThatWereSent) {
  const std::vector<RemoteRow> rows{{1, 2}, {UINT64_MAX, 4}};
  const auto payload = payload_of(rows, {"abcd", "xyz", "", "efg"}, {"entry", "", "", ""});
  const auto parsed = parse_remote_inputs({.rows = 2}, fields(), payload);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->rows[1].record, UINT64_MAX);
  EXPECT_EQ(parsed->rows[0].occurrence, 2U);
  ASSERT_EQ(parsed->inputs.size(), 4U);
  EXPECT_TRUE(std::ranges::equal(parsed->inputs[3], bytes_of("efg")));
  EXPECT_TRUE(parsed->inputs[2].empty());
  EXPECT_EQ(parsed->inputs[0].size(), 4U);
  ASSERT_EQ(parsed->entries.size(), 4U);
  EXPECT_TRUE(std::ranges::equal(parsed->entries[0], bytes_of("entry")));
  EXPECT_TRUE(parsed->entries[2].empty());
}

TEST(ChunkMessage, LengthsThatLieAreRefused) {
  const auto payload = payload_of({{1, 2}}, {"abc", "def"}, {"entry", ""});
  for (std::size_t size = 0; size < payload.size(); ++size)
    EXPECT_FALSE(parse_remote_inputs({.rows = 1}, fields(), std::span(payload).first(size))) << size;
  auto longer = payload;
  longer.push_back({});
  EXPECT_FALSE(parse_remote_inputs({.rows = 1}, fields(), longer));
  EXPECT_FALSE(parse_remote_inputs({.rows = 2}, fields(), payload));
  auto lies = payload;
  std::fill_n(lies.begin() + 16, 8, std::byte{0xFF});  // the first length
  EXPECT_FALSE(parse_remote_inputs({.rows = 1}, fields(), lies));
  lies = payload;
  std::fill_n(lies.begin() + 24, 8, std::byte{0xFF});  // that of its entry
  EXPECT_FALSE(parse_remote_inputs({.rows = 1}, fields(), lies));
  auto behind = payload;
  behind[16 + 24 + 3] = std::byte{1};  // the first byte behind the encoded input
  EXPECT_FALSE(parse_remote_inputs({.rows = 1}, fields(), behind));
  EXPECT_FALSE(parse_remote_inputs({.rows = 1}, fields(), payload_of({{1, 2}}, {"abc", "de"})));
}

TEST(ChunkMessage, TheDocumentsExampleIsWhatIsSent) {
  std::ifstream file(CARYA_CHUNK_FORMAT);
  ASSERT_TRUE(file) << CARYA_CHUNK_FORMAT;
  std::string expected, line;
  bool inside = false;
  while (std::getline(file, line)) {
    if (line.starts_with("```")) {
      inside = line == "```hex";
      continue;
    }
    if (!inside) continue;
    std::istringstream words(line.substr(4));
    for (int byte = 0; words >> std::hex >> byte;) expected.push_back(static_cast<char>(byte));
  }
  const std::vector<transforms::SourceField> photo{
      fields()[0], {.kind = transforms::SourceField::Kind::kLabel, .spec = {"label", DType::kInt64, {}}}};
  const std::string record = "JPG", entry = "IDX";
  const std::int64_t label = 2;
  const RemoteInputs inputs{.rows = {{5, 0}},
                            .inputs = {bytes_of(record), std::as_bytes(std::span(&label, 1))},
                            .entries = {bytes_of(entry), {}}};
  std::string sent;
  const auto add = [&](std::span<const std::byte> bytes) {
    sent.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  add(remote_table(photo, inputs));
  for (const auto part : remote_parts(photo, inputs)) add(part);
  EXPECT_EQ(sent, expected);
}

}  // namespace
}  // namespace carya::loader
