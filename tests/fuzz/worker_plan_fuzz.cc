// Plans for workers that are well-formed and have hostile values, and a chunk for each that is taken: within
// the limits of a small worker, and given up when it is told to.

#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include "loader/wire/worker_plan.h"
#include "tests/fuzz/drawn.h"
#include "transforms/pipeline/pipeline.h"

namespace {

using namespace carya;          // NOLINT(google-build-using-namespace): a program's own file
using namespace carya::loader;  // NOLINT(google-build-using-namespace)

std::vector<std::byte> photo() {
  std::ifstream file(CARYA_FUZZ_PHOTO, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto all = std::as_bytes(std::span(bytes));
  return {all.begin(), all.end()};
}

Json number(std::uint8_t kind, std::uint8_t value) {
  switch (kind % 8) {
    case 0:
      return -static_cast<int>(value);
    case 1:
      return std::uint64_t{1} << (value % 64);
    case 2:
      return std::numeric_limits<std::int64_t>::min();
    case 3:
      return 1e308;
    case 4:
      return value / 255.0;
    case 5:
      return value * 100;
    default:
      return value;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::byte> kPhoto = photo();
  Json document = Json::parse(
      R"({"version":1,"source":{"type":"files","paths":["x"]},"ops":[{"op":"decode_image"},{"op":"resize","size":[40,30]},)"
      R"({"op":"pad","padding":[1,2,3,4]},{"op":"rotate","degrees":30},{"op":"gaussian_blur","kernel_size":5,"sigma":[0.5,2.0]},)"
      R"({"op":"random_resized_crop","size":[16,16]},{"op":"normalize","mean":0.4,"std":0.2}],"batch":{"batch_size":2}})");
  std::vector<Json*> numbers;
  collect_numbers(document, numbers);
  for (std::size_t i = 0; i + 2 < size && i < 24; i += 3)
    *numbers[data[i] % numbers.size()] = number(data[i + 1], data[i + 2]);
  const auto pipeline = transforms::Pipeline::parse(document.dump());
  if (!pipeline) return 0;
  RemotePlan plan{.id = 1, .pipeline = (*pipeline)->to_json()};
  plan.fingerprint = (*pipeline)->fingerprint(transforms::OnError::kRaise);
  for (std::size_t i = 0; i < (*pipeline)->ops().size(); ++i) plan.order.push_back(i);
  plan.cut = 1 + (size > 0 ? data[size - 1] % plan.order.size() : 0);
  const auto worker = WorkerPlan::compile(plan, {.pixels_max = 1 << 20});
  if (!worker) return 0;
  const RemoteChunk chunk{.plan = 1, .epoch = 0, .rows = 1};
  const auto bytes = (*worker)->result_bytes(chunk);
  if (!bytes || *bytes > (64 << 20)) return 0;
  const RemoteInputs inputs{.rows = {{}}, .inputs = {kPhoto}};
  std::vector<std::byte> payload = remote_table((*pipeline)->fields(), inputs);
  for (const auto part : remote_parts((*pipeline)->fields(), inputs))
    payload.insert(payload.end(), part.begin(), part.end());
  transforms::Scratch scratch;
  std::vector<std::byte> out(*bytes);
  int asked = 0;
  static_cast<void>((*worker)->compute(chunk, payload, scratch, out, [&] { return ++asked < 20; }));
  return 0;
}
