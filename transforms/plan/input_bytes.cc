#include "transforms/plan/packing.h"
#include "transforms/plan/program.h"

namespace carya::transforms {

void find_raws(Program& program) {
  for (const Program::OpProgram& entry : program.ops)
    if (const DecodeRaw* const raw = as_decode_raw(*entry.op))
      for (const std::size_t f : entry.fields) program.raws.push_back({f, raw});
}

Status check_raws(const Program& program, std::span<const std::span<const std::byte>> inputs) {
  for (const auto& [field, op] : program.raws)
    TRY(op->check(program.inputs[field].spec.name, inputs[field].size()));
  return {};
}

std::uint64_t pixel_bytes(const FieldProgram& field, ImageSize size) {
  if (field.in_bytes >= 0) return static_cast<std::uint64_t>(field.in_bytes);
  return packed_bytes({field.name, DType::kUint8, field.source_shape}, size);
}

}  // namespace carya::transforms
