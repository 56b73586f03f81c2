#pragma once

#include <cstddef>
#include <cstdint>

#include "io/manifest/manifest.h"
#include "io/read/read_engine.h"

namespace carya::loader {

class ReadList;
struct Chunk;
struct OpenSource;

/// One read on its way. The request's token is its address.
struct ReadOp {
  Chunk* chunk = nullptr;
  std::size_t task = 0;
  std::size_t input = 0;                   ///< of the chunk's inputs: what is read
  const io::Manifest* manifest = nullptr;  ///< whose root or container the request means
  std::uint32_t container = UINT32_MAX;
  std::uint64_t job = 0;         ///< number of the production
  OpenSource* source = nullptr;  ///< what it reads from, while it is in flight
  io::ReadRequest request{};
  ReadList* list = nullptr;  ///< it is on, between its neighbours; null when it has ended
  ReadOp* before = nullptr;
  ReadOp* after = nullptr;
  std::int64_t queued_ns = 0;  ///< when it was last queued
  std::int64_t first_ns = 0;   ///< when it was first submitted
  std::int64_t due_ns = 0;     ///< not to be submitted earlier
  std::uint32_t attempts = 0;
};

/// Between one try to read something and the next.
constexpr std::int64_t kRetryFirstNs = 10'000'000;
constexpr std::int64_t kRetryMaxNs = 1'000'000'000;

}  // namespace carya::loader
