#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "loader/data/dataset.h"
#include "loader/data/decode_index.h"
#include "loader/wire/chunk_message.h"

namespace carya::loader {

/// A chunk as it is sent to a worker: a head and parts. The parts stay valid even when the chunk itself is used for
/// other rows.
struct EncodedChunk {
  RemoteChunk head{};  ///< the head of the form with the records' bytes
  std::vector<std::byte> table;
  std::vector<std::span<const std::byte>> parts;
  // The form for a worker that reads records itself. The table is empty if some record has no address.
  std::vector<std::byte> address_table;
  std::vector<std::span<const std::byte>> address_parts;

  // The memory that the parts point to.
  std::vector<std::int64_t> labels;
  std::vector<std::vector<std::byte>> entries;  ///< entries of the decode index
  std::vector<std::vector<std::byte>> addresses;
  std::shared_ptr<const void> buffer;
  std::shared_ptr<const Dataset> dataset;  ///< keeps the arrays in memory

  RemoteChunk head_of(bool by_address) const;
  std::span<const std::byte> table_of(bool by_address) const { return by_address ? address_table : table; }
  const std::vector<std::span<const std::byte>>& parts_of(bool by_address) const {
    return by_address ? address_parts : parts;
  }
  std::size_t bytes(bool by_address) const;
};

/// The chunk to encode, and its inputs.
struct ChunkToEncode {
  const Dataset* dataset = nullptr;
  std::span<const transforms::SourceField> fields;
  std::uint64_t plan = 0;  ///< RemotePlan::id
  std::uint64_t epoch = 0;
  std::vector<RemoteRow> rows;
  std::span<const std::span<const std::byte>> inputs;  ///< rows x fields
  std::span<const std::int64_t> labels;                ///< the labels that inputs point to
  const DecodeIndex* index = nullptr;                  ///< the index whose entries are sent; null: none are
  bool with_addresses = false;
};

/// Encode a chunk in both forms. The caller sets `buffer` and `dataset` of the result, which keep the inputs alive.
/// Cost: proportional to the rows. Takes no lock. May throw std::bad_alloc.
std::shared_ptr<EncodedChunk> encode_chunk(const ChunkToEncode& chunk);

}  // namespace carya::loader
