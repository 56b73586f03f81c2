// What hosts and workers say of plans and chunks: documents that are taken survive the way back, and a
// payload that is taken is the one that its parts make.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "loader/wire/chunk_message.h"

namespace {

using namespace carya;
using namespace carya::loader;

template <typename Document>
void read(std::span<const std::byte> body) {
  const auto document = decode_remote<Document>(body);
  if (!document) return;
  const std::string text = encode_remote(*document);
  const auto again = decode_remote<Document>(std::as_bytes(std::span(text)));
  if (!again || encode_remote(*again) != text) std::abort();
}

const std::vector<transforms::SourceField>& fields() {
  using Kind = transforms::SourceField::Kind;
  static const std::vector<transforms::SourceField> kFields{
      {.kind = Kind::kEncoded, .spec = {"image", DType::kUint8, {-1}}},
      {.kind = Kind::kTensor, .spec = {"row", DType::kUint8, {3}}},
      {.kind = Kind::kEncoded, .spec = {"mask", DType::kUint8, {-1}}}};
  return kFields;
}

void parse(std::span<const std::byte> payload, std::uint64_t rows) {
  const auto parsed = parse_remote_inputs({.rows = rows}, fields(), payload);
  if (!parsed) return;
  std::vector<std::byte> again = remote_table(fields(), *parsed);
  for (const auto part : remote_parts(fields(), *parsed)) again.insert(again.end(), part.begin(), part.end());
  if (!std::ranges::equal(again, payload)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  read<RemotePlan>(bytes);
  read<RemoteReady>(bytes);
  read<RemoteChunk>(bytes);
  read<RemoteResult>(bytes);
  const auto address = parse_remote_address(bytes);
  if (address && !std::ranges::equal(remote_address(*address), bytes)) std::abort();
  for (const std::uint64_t rows : {1, 2, 5}) parse(bytes, rows);
  return 0;
}
