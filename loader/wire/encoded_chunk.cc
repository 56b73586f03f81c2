#include "loader/wire/encoded_chunk.h"

#include <numeric>

#include "loader/wire/record_address.h"

namespace carya::loader {

using Kind = transforms::SourceField::Kind;

RemoteChunk EncodedChunk::head_of(bool by_address) const {
  RemoteChunk said = head;
  said.addresses = by_address;
  return said;
}

std::size_t EncodedChunk::bytes(bool by_address) const {
  const auto& sent = parts_of(by_address);
  return std::accumulate(sent.begin(), sent.end(), table_of(by_address).size(),
                         [](std::size_t sum, const auto& part) { return sum + part.size(); });
}

std::shared_ptr<EncodedChunk> encode_chunk(const ChunkToEncode& chunk) {
  const std::size_t fields = chunk.fields.size();
  const auto source = [&](std::size_t i) {
    return chunk.dataset->source_index(chunk.rows[i / fields].record);
  };
  auto sent = std::make_shared<EncodedChunk>();
  sent->head = {.plan = chunk.plan, .epoch = chunk.epoch, .rows = chunk.rows.size()};
  sent->labels.assign(chunk.labels.begin(), chunk.labels.end());
  RemoteInputs inputs{.rows = chunk.rows, .inputs = {chunk.inputs.begin(), chunk.inputs.end()}};
  // Labels lie in the chunk, which is used for other rows soon.
  const auto theirs = std::as_bytes(chunk.labels), own = std::as_bytes(std::span(sent->labels));
  for (std::span<const std::byte>& input : inputs.inputs)
    if (input.data() >= theirs.data() && input.data() < theirs.data() + theirs.size())
      input = own.subspan(static_cast<std::size_t>(input.data() - theirs.data()), input.size());
  if (chunk.index != nullptr) {
    sent->entries.resize(inputs.inputs.size());
    for (std::size_t i = 0; i < inputs.inputs.size(); ++i)
      inputs.entries.push_back(chunk.index->entry(i % fields, source(i), sent->entries[i]));
  }
  sent->table = remote_table(chunk.fields, inputs);
  sent->parts = remote_parts(chunk.fields, inputs);
  if (!chunk.with_addresses) return sent;
  for (std::size_t i = 0; i < inputs.inputs.size(); ++i) {
    const Dataset::Field& field = chunk.dataset->fields()[i % fields];
    if (field.kind != Kind::kEncoded) continue;
    const auto address = record_address(*field.manifest, source(i));
    if (!address) return sent;
    inputs.inputs[i] = sent->addresses.emplace_back(remote_address(*address));
  }
  sent->address_table = remote_table(chunk.fields, inputs);
  sent->address_parts = remote_parts(chunk.fields, inputs);
  return sent;
}

}  // namespace carya::loader
