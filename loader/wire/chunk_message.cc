#include "loader/wire/chunk_message.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "loader/wire/number_ranges.h"
#include "remote/protocol/archive.h"
#include "remote/protocol/cbor_check.h"

namespace carya::archive {

using namespace loader;  // NOLINT(google-build-using-namespace): whose documents these are

CARYA_FIELDS(RemoteFile) {
  a.blob("path", d.path), a("bytes", d.bytes), a("mtime_ns", d.mtime_ns);
}
CARYA_FIELDS(RemotePlan) {
  a("id", d.id), a("pipeline", d.pipeline), a("fingerprint", d.fingerprint), a("seed", d.seed);
  a("order", d.order), a("cut", d.cut), a("files", d.files);
}
CARYA_FIELDS(RemoteReady) {
  a("reads", d.reads), a.blob("note", d.note);
}
CARYA_FIELDS(RemoteChunk) {
  a("plan", d.plan), a("epoch", d.epoch), a("rows", d.rows), a("addresses", d.addresses);
}
CARYA_FIELDS(RemoteResult) {
  a("broken", d.broken), a("thread_ns", d.thread_ns), a.blob("unread", d.unread);
}

}  // namespace carya::archive

namespace carya::loader {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kRowBytes = 16;
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAddressBytes = 32;  // without the path
constexpr std::size_t kPathBytesMax = 4096;
constexpr std::size_t kFilesMax = 256;  // of a plan
constexpr std::array<std::byte, kRemoteSlackBytes> kZeros{};

bool is_encoded(const transforms::SourceField& field) {
  return field.kind == transforms::SourceField::Kind::kEncoded;
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

std::span<const std::byte> entry_of(const RemoteInputs& inputs, std::size_t i) {
  return inputs.entries.empty() ? std::span<const std::byte>() : inputs.entries[i];
}

// What is wrong with the ranges of a document that has the right form; "": nothing.
std::string out_of_range(const RemotePlan& plan) {
  if (plan.files.size() > kFilesMax) return "files";
  return plan.cut > plan.order.size() ? "cut" : "";
}
std::string out_of_range(const RemoteReady& ready) {
  return ready.note.size() > 2 * kPathBytesMax ? "note" : "";
}
std::string out_of_range(const RemoteChunk&) {
  return "";
}
std::string out_of_range(const RemoteResult& result) {
  if (result.unread.size() > 2 * kPathBytesMax) return "unread";
  const bool ascending = std::ranges::is_sorted(result.broken, std::less_equal());
  return ascending && result.broken.size() <= kRemoteRowsMax ? "" : "broken";
}

// What hosts send; other documents are a worker's.
template <typename Document>
constexpr const char* kHostName = nullptr;
template <>
constexpr const char* kHostName<RemotePlan> = "RemotePlan";
template <>
constexpr const char* kHostName<RemoteChunk> = "RemoteChunk";

}  // namespace

std::vector<std::string> host_number_fields() {
  std::vector<std::string> places;
  archive::add_number_fields<RemotePlan>(kHostName<RemotePlan>, places);
  archive::add_number_fields<RemoteChunk>(kHostName<RemoteChunk>, places);
  return places;
}

template <typename Document>
std::string encode_remote(const Document& document) {
  return archive::to_cbor<Json>(document);
}

template <typename Document>
Result<Document> decode_remote(std::span<const std::byte> body) {
  TRY(remote::check_cbor(body));
  std::string wrong;
  auto document =
      archive::from_cbor<Json, Document>({reinterpret_cast<const char*>(body.data()), body.size()}, wrong);
  if (document) wrong = out_of_range(*document);
  if constexpr (kHostName<Document> != nullptr)
    if (document && wrong.empty())
      if (const Status range = archive::check_numbers(kHostName<Document>, *document, check_number); !range)
        return fail(Code::kCorrupt, "remote message: " + range.error().message);
  if (document && wrong.empty()) return std::move(*document);
  return fail(Code::kCorrupt,
              "remote message: " + (wrong.empty() ? std::string("its body") : wrong) + " is not as expected");
}

template std::string encode_remote(const RemotePlan&);
template std::string encode_remote(const RemoteReady&);
template std::string encode_remote(const RemoteChunk&);
template std::string encode_remote(const RemoteResult&);
template Result<RemotePlan> decode_remote(std::span<const std::byte>);
template Result<RemoteReady> decode_remote(std::span<const std::byte>);
template Result<RemoteChunk> decode_remote(std::span<const std::byte>);
template Result<RemoteResult> decode_remote(std::span<const std::byte>);

std::vector<std::byte> remote_table(std::span<const transforms::SourceField> fields,
                                    const RemoteInputs& inputs) {
  std::vector<std::byte> table;
  table.reserve(inputs.rows.size() * kRowBytes + 2 * inputs.inputs.size() * kLengthBytes);
  for (const RemoteRow& row : inputs.rows) append(table, row.record), append(table, row.occurrence);
  for (std::size_t i = 0; i < inputs.inputs.size(); ++i) {
    append(table, inputs.inputs[i].size());
    if (is_encoded(fields[i % fields.size()])) append(table, entry_of(inputs, i).size());
  }
  return table;
}

std::vector<std::span<const std::byte>> remote_parts(std::span<const transforms::SourceField> fields,
                                                     const RemoteInputs& inputs) {
  std::vector<std::span<const std::byte>> parts;
  parts.reserve(3 * inputs.inputs.size());
  for (std::size_t i = 0; i < inputs.inputs.size(); ++i) {
    parts.push_back(inputs.inputs[i]);
    if (!is_encoded(fields[i % fields.size()])) continue;
    parts.emplace_back(kZeros);
    if (!entry_of(inputs, i).empty()) parts.push_back(entry_of(inputs, i));
  }
  return parts;
}

std::vector<std::byte> remote_address(const RemoteAddress& address) {
  std::vector<std::byte> input;
  append(input, address.offset), append(input, address.bytes), append(input, address.file.bytes);
  append(input, static_cast<std::uint64_t>(address.file.mtime_ns));
  const auto path = std::as_bytes(std::span(address.file.path));
  input.insert(input.end(), path.begin(), path.end());
  return input;
}

Result<RemoteAddress> parse_remote_address(std::span<const std::byte> input) {
  if (input.size() <= kAddressBytes || input.size() > kAddressBytes + kPathBytesMax)
    return fail(Code::kCorrupt, fmt::format("remote chunk: {} bytes are no address", input.size()));
  const auto path = input.subspan(kAddressBytes);
  return RemoteAddress{.file = {.path = {reinterpret_cast<const char*>(path.data()), path.size()},
                                .bytes = number_at(input, 16),
                                .mtime_ns = static_cast<std::int64_t>(number_at(input, 24))},
                       .offset = number_at(input, 0),
                       .bytes = number_at(input, 8)};
}

Result<RemoteInputs> parse_remote_inputs(const RemoteChunk& chunk,
                                         std::span<const transforms::SourceField> fields,
                                         std::span<const std::byte> payload) {
  const auto wrong = [](const std::string& what) { return fail(Code::kCorrupt, "remote chunk: " + what); };
  const auto encoded = static_cast<std::size_t>(std::ranges::count_if(fields, is_encoded));
  // Rows are at most kRemoteRowsMax, fields few.
  const std::size_t table = chunk.rows * (kRowBytes + (fields.size() + encoded) * kLengthBytes);
  if (payload.size() < table) return wrong("it is shorter than its table of rows");
  RemoteInputs parsed;
  for (std::size_t row = 0; row < chunk.rows; ++row)
    parsed.rows.push_back({number_at(payload, row * kRowBytes), number_at(payload, row * kRowBytes + 8)});
  std::size_t lengths = chunk.rows * kRowBytes;  // the next one
  std::span<const std::byte> left = payload.subspan(table);
  const auto take = [&](std::uint64_t bytes, std::vector<std::span<const std::byte>>& to) {
    if (bytes > left.size()) return false;
    to.push_back(left.first(bytes));
    left = left.subspan(bytes);
    return true;
  };
  const auto next_length = [&] { return number_at(payload, std::exchange(lengths, lengths + kLengthBytes)); };
  for (std::size_t i = 0; i < chunk.rows * fields.size(); ++i) {
    const transforms::SourceField& field = fields[i % fields.size()];
    const std::uint64_t bytes = next_length();
    const std::int64_t fixed = is_encoded(field) ? -1 : field.spec.bytes();  // -1: of any length
    if (fixed >= 0 && bytes != static_cast<std::uint64_t>(fixed))
      return wrong(
          fmt::format("{} has {} bytes; the plan takes {}", field.spec.name, bytes, field.spec.to_string()));
    if (!take(bytes, parsed.inputs)) return wrong("an input is longer than what was sent");
    if (!is_encoded(field)) {
      parsed.entries.emplace_back();
      continue;
    }
    if (left.size() < kRemoteSlackBytes || !std::ranges::equal(left.first(kRemoteSlackBytes), kZeros))
      return wrong("there are no zeros behind an input");
    left = left.subspan(kRemoteSlackBytes);
    if (!take(next_length(), parsed.entries)) return wrong("an index entry is longer than what was sent");
  }
  if (!left.empty()) return wrong("there is more than its inputs");
  return parsed;
}

}  // namespace carya::loader
