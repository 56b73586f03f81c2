#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/manifest/manifest.h"
#include "io/read/read_engine.h"

namespace carya::loader {

class ReadList;
struct OpenSource;
struct ReadBatch;

/// One read. The token of its request is its address, so it does not move until it has ended.
struct ReadOp {
  ReadBatch* batch = nullptr;              ///< the batch that it belongs to
  std::size_t task = 0;                    ///< for the client: the row that the read is for
  std::size_t input = 0;                   ///< for the client: the input that the read fills
  const io::Manifest* manifest = nullptr;  ///< has the root or container of the request
  /// How the manifest's store is asked; null: as this process does, or it is in none. It lives until the read has begun.
  const io::StoreUse* use = nullptr;
  std::uint32_t container = UINT32_MAX;
  std::uint64_t job = 0;         ///< ReadClient::number
  OpenSource* source = nullptr;  ///< the open root or container, while the read is in flight
  io::ReadRequest request{};
  ReadList* list = nullptr;  ///< the list that it is on, between its neighbours; null when it has ended
  ReadOp* before = nullptr;
  ReadOp* after = nullptr;
  std::int64_t queued_ns = 0;  ///< when it was last queued or started
  std::int64_t first_ns = 0;   ///< when it was first submitted
  std::int64_t due_ns = 0;     ///< it is not submitted earlier
  std::uint32_t attempts = 0;

  /// Whether it is a range of a file that the read engine has open. (An object of a store is never open.)
  bool in_container() const { return container != UINT32_MAX && request.pin == nullptr; }
};

/// The wait before the first retry of a read. It doubles with each next one, up to the maximum.
constexpr std::int64_t kRetryFirstNs = 10'000'000;
constexpr std::int64_t kRetryMaxNs = 1'000'000'000;
/// Of reads from a store, whose waits are drawn from 0 to the doubled bound.
constexpr std::int64_t kStoreRetryMaxNs = 5'000'000'000;

}  // namespace carya::loader
