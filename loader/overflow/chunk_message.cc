#include "loader/overflow/chunk_message.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/cbor_check.h"
#include "remote/archive.h"

namespace carya::archive {

using namespace loader;  // NOLINT(google-build-using-namespace): whose documents these are

CARYA_FIELDS(RemotePlan) {
  a("id", d.id), a("pipeline", d.pipeline), a("fingerprint", d.fingerprint), a("seed", d.seed);
  a("order", d.order), a("cut", d.cut);
}
CARYA_FIELDS(RemoteChunk) {
  a("plan", d.plan), a("epoch", d.epoch), a("rows", d.rows);
}
CARYA_FIELDS(RemoteResult) {
  a("broken", d.broken), a("cpu_ns", d.cpu_ns);
}

}  // namespace carya::archive

namespace carya::loader {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kRowBytes = 16;
constexpr std::size_t kLengthBytes = 8;
constexpr std::array<std::byte, kRemoteSlackBytes> kZeros{};

std::size_t slack_of(const transforms::SourceField& field) {
  return field.kind == transforms::SourceField::Kind::kEncoded ? kRemoteSlackBytes : 0;
}

std::uint64_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

void append(std::vector<std::byte>& to, std::uint64_t number) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&number);
  to.insert(to.end(), bytes, bytes + sizeof number);
}

// What is wrong with the ranges of a document that has the right form; "": nothing.
std::string out_of_range(const RemotePlan& plan) {
  return plan.cut == 0 || plan.cut > plan.order.size() ? "cut" : "";
}
std::string out_of_range(const RemoteChunk& chunk) {
  return chunk.rows == 0 || chunk.rows > kRemoteRowsMax ? "rows" : "";
}
std::string out_of_range(const RemoteResult& result) {
  const bool ascending = std::ranges::is_sorted(result.broken, std::less_equal());
  return ascending && result.broken.size() <= kRemoteRowsMax ? "" : "broken";
}

}  // namespace

template <typename Document>
std::string encode_remote(const Document& document) {
  return archive::to_cbor<Json>(document);
}

template <typename Document>
Result<Document> decode_remote(std::span<const std::byte> body) {
  TRY(check_cbor(body));
  std::string wrong;
  auto document =
      archive::from_cbor<Json, Document>({reinterpret_cast<const char*>(body.data()), body.size()}, wrong);
  if (document) wrong = out_of_range(*document);
  if (document && wrong.empty()) return std::move(*document);
  return fail(Code::kCorrupt,
              "remote message: " + (wrong.empty() ? std::string("its body") : wrong) + " is not as expected");
}

template std::string encode_remote(const RemotePlan&);
template std::string encode_remote(const RemoteChunk&);
template std::string encode_remote(const RemoteResult&);
template Result<RemotePlan> decode_remote(std::span<const std::byte>);
template Result<RemoteChunk> decode_remote(std::span<const std::byte>);
template Result<RemoteResult> decode_remote(std::span<const std::byte>);

std::vector<std::byte> remote_table(std::span<const RemoteRow> rows,
                                    std::span<const std::span<const std::byte>> inputs) {
  std::vector<std::byte> table;
  table.reserve(rows.size() * kRowBytes + inputs.size() * kLengthBytes);
  for (const RemoteRow& row : rows) append(table, row.record), append(table, row.occurrence);
  for (const std::span<const std::byte> input : inputs) append(table, input.size());
  return table;
}

std::vector<std::span<const std::byte>> remote_parts(std::span<const transforms::SourceField> fields,
                                                     std::span<const std::span<const std::byte>> inputs) {
  std::vector<std::span<const std::byte>> parts;
  parts.reserve(2 * inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(inputs[i]);
    if (slack_of(fields[i % fields.size()]) > 0) parts.emplace_back(kZeros);
  }
  return parts;
}

Result<RemoteInputs> parse_remote_inputs(const RemoteChunk& chunk,
                                         std::span<const transforms::SourceField> fields,
                                         std::span<const std::byte> payload) {
  const auto wrong = [](const std::string& what) { return fail(Code::kCorrupt, "remote chunk: " + what); };
  const std::size_t count = chunk.rows * fields.size();  // rows are at most kRemoteRowsMax, fields few
  const std::size_t table = chunk.rows * kRowBytes + count * kLengthBytes;
  if (payload.size() < table) return wrong("it is shorter than its table of rows");
  RemoteInputs parsed;
  for (std::size_t row = 0; row < chunk.rows; ++row)
    parsed.rows.push_back({number_at(payload, row * kRowBytes), number_at(payload, row * kRowBytes + 8)});
  std::span<const std::byte> left = payload.subspan(table);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bytes = number_at(payload, chunk.rows * kRowBytes + i * kLengthBytes);
    const transforms::SourceField& field = fields[i % fields.size()];
    const std::size_t slack = slack_of(field);
    if (slack == 0 && bytes != static_cast<std::uint64_t>(field.spec.bytes()))
      return wrong(field.spec.name + " has " + std::to_string(bytes) + " bytes; the plan takes " +
                   field.spec.to_string());
    if (bytes > left.size() || slack > left.size() - bytes)
      return wrong("an input is longer than what was sent");
    if (!std::ranges::equal(left.subspan(bytes, slack), std::span(kZeros).first(slack)))
      return wrong("there are no zeros behind an input");
    parsed.inputs.push_back(left.first(bytes));
    left = left.subspan(bytes + slack);
  }
  if (!left.empty()) return wrong("there is more than its inputs");
  return parsed;
}

}  // namespace carya::loader
