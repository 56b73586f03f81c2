// Chunks for a worker that are well-formed and have hostile values: numbers of the request and of the table before the
// inputs, bytes of the pictures, of their decode index entries, and of addresses. A chunk that nothing was changed in
// has the bits of the pipeline; a row that is said to be broken is zeros.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "loader/wire/worker_plan.h"
#include "tests/fuzz/drawn.h"
#include "transforms/jpeg/decoder.h"
#include "transforms/pipeline/pipeline.h"

namespace {

using namespace carya;          // NOLINT(google-build-using-namespace): a program's own file
using namespace carya::loader;  // NOLINT(google-build-using-namespace)

using Bytes = std::vector<std::byte>;

Bytes photo() {
  std::ifstream file(CARYA_FUZZ_PHOTO, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto all = std::as_bytes(std::span(bytes));
  return {all.begin(), all.end()};
}

struct Subject {
  std::shared_ptr<const transforms::Pipeline> pipeline;
  std::shared_ptr<const WorkerPlan> plan;
};

Subject subject() {
  Subject made;
  made.pipeline = transforms::Pipeline::parse(
                      R"({"version":1,"source":{"type":"files","paths":["x"]},"ops":[{"op":"decode_image"},)"
                      R"({"op":"random_resized_crop","size":[16,16]},{"op":"random_horizontal_flip"},)"
                      R"({"op":"normalize","mean":0.4,"std":0.2}],"batch":{"batch_size":2}})")
                      .value();
  RemotePlan plan{.id = 1, .pipeline = made.pipeline->to_json()};
  plan.fingerprint = made.pipeline->fingerprint(transforms::OnError::kRaise);
  for (std::size_t i = 0; i < made.pipeline->ops().size(); ++i) plan.order.push_back(i);
  plan.cut = plan.order.size();
  made.plan = WorkerPlan::compile(plan, {.pixels_max = 1 << 20}).value();
  return made;
}

void spoil(Bytes& bytes, Choices& choices) {
  if (bytes.empty()) return;
  for (std::size_t i = 1 + choices.byte() % 4U; i > 0; --i)
    bytes[choices.below(bytes.size())] = static_cast<std::byte>(choices.byte());
  if (choices.byte() % 4 == 0) bytes.resize(choices.below(bytes.size() + 1));
}

/// One of the numbers of the payload's table is another one.
void spoil_table(Bytes& payload, std::size_t table_bytes, Choices& choices) {
  std::uint64_t number = choices.byte();
  if (number > 200) number = std::uint64_t{1} << (number % 64);
  if (number > 127) number = ~number;
  std::memcpy(payload.data() + 8 * choices.below(table_bytes / 8), &number, sizeof number);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Bytes kPhoto = photo();
  static const Subject kSubject = subject();
  Choices choices(data, size);
  bool changed = false;
  const auto now_and_then = [&](std::uint8_t of) {
    const bool is = choices.any() && choices.byte() % of == 0;
    changed |= is;
    return is;
  };

  RemoteChunk chunk{.plan = 1, .epoch = choices.byte(), .rows = 1U + choices.byte() % 3U};
  const std::uint64_t rows = chunk.rows;
  if (now_and_then(4)) {
    Json document = Json::from_cbor(encode_remote(chunk));
    std::vector<Json*> leaves;
    collect_leaves(document, leaves);
    *leaves[choices.below(leaves.size())] = choices.value();
    std::vector<std::uint8_t> body = Json::to_cbor(document);
    const auto read = decode_remote<RemoteChunk>(std::as_bytes(std::span(body)));
    if (!read) return 0;
    chunk = *read;
  }

  std::vector<Bytes> parts;
  for (std::uint64_t row = 0; row < rows; ++row) {
    Bytes input = kPhoto;
    if (chunk.addresses)
      input = remote_address({{"/data/a.jpg", kPhoto.size(), 7}, choices.byte(), kPhoto.size()});
    if (now_and_then(2)) spoil(input, choices);
    parts.push_back(std::move(input));
  }
  RemoteInputs inputs;
  for (std::uint64_t row = 0; row < rows; ++row) {
    inputs.rows.push_back({row, choices.byte()});
    inputs.inputs.emplace_back(parts[row]);
  }
  Bytes entry(choices.byte() % 64);
  if (now_and_then(2)) spoil(entry, choices);
  if (!entry.empty()) inputs.entries.assign(rows, entry);
  Bytes payload = remote_table(kSubject.pipeline->fields(), inputs);
  const std::size_t table_bytes = payload.size();
  for (const auto part : remote_parts(kSubject.pipeline->fields(), inputs))
    payload.insert(payload.end(), part.begin(), part.end());
  if (now_and_then(2)) spoil_table(payload, table_bytes, choices);
  if (now_and_then(8)) spoil(payload, choices);

  const auto bytes = kSubject.plan->result_bytes(chunk);
  if (!bytes || *bytes > (64 << 20)) return 0;
  transforms::Scratch scratch;
  Bytes out(*bytes, std::byte{0x5a});
  int reads = 0;
  const auto read = [&](const RemoteAddress& address, Bytes& into) -> Result<std::span<const std::byte>> {
    ++reads;
    if (address.offset >= kPhoto.size()) return fail(Code::kIo, "nothing is there");
    into.assign(kPhoto.begin() + static_cast<std::ptrdiff_t>(address.offset), kPhoto.end());
    into.resize(into.size() + kRemoteSlackBytes);
    return std::span<const std::byte>(into).first(into.size() - kRemoteSlackBytes);
  };
  const auto result = kSubject.plan->compute(chunk, payload, scratch, out, [] { return true; }, read);
  if (!result) {
    CHECK(!result.error().message.empty());
    return 0;
  }
  CHECK(std::ranges::is_sorted(result->broken) && reads <= static_cast<int>(chunk.rows));
  const std::size_t row_bytes = out.size() / chunk.rows;
  for (const std::uint64_t row : result->broken) {
    CHECK(row < chunk.rows);
    const auto begin = out.begin() + static_cast<std::ptrdiff_t>(row * row_bytes);
    CHECK(std::all_of(begin, begin + static_cast<std::ptrdiff_t>(row_bytes),
                      [](std::byte byte) { return byte == std::byte{0}; }));
  }
  if (!changed && !chunk.addresses) CHECK(result->broken.empty());
  return 0;
}
