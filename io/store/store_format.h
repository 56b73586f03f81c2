#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/store/record_store.h"

namespace carya::io {

/// The layouts of FORMAT.md. Little-endian, as every machine we build for.
struct StoreHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t kind;
  std::uint64_t dataset_high;
  std::uint64_t dataset_low;
  std::uint64_t record_count;
  std::uint64_t salt;  ///< random per file: entries of another file never check, even if a payload holds them
  std::uint64_t reserved;
  std::uint64_t hash;  ///< of the bytes before it
};
static_assert(sizeof(StoreHeader) == 64 && offsetof(StoreHeader, salt) == 40);

struct EntryHead {
  std::uint32_t mark;
  std::uint32_t bytes;  ///< of the payload, which follows
  std::uint64_t record;
  std::uint64_t hash;  ///< of the payload, seeded with salt, mark, bytes and record
};
static_assert(sizeof(EntryHead) == 24 && offsetof(EntryHead, hash) == 16);

inline constexpr char kStoreMagic[8] = {'C', 'A', 'R', 'Y', 'A', 'S', 'T', 'O'};
inline constexpr std::uint32_t kStoreVersion = 1;
inline constexpr std::uint32_t kEntryMark = 0x7972'7463;  // "ctry"
inline constexpr std::uint64_t kEntryAlign = 8;

StoreHeader make_store_header(const StoreIdentity& identity, std::uint64_t salt);

/// Whether magic, version, hash and limits are right.
bool store_header_valid(const StoreHeader& header);
bool has_store_magic(const StoreHeader& header);
StoreIdentity identity_of(const StoreHeader& header);

/// The hash that belongs in an entry. Cost: that of XXH3-64 of the payload, plus ~10 ns.
std::uint64_t entry_hash(const EntryHead& head, std::span<const std::byte> payload, std::uint64_t salt);

/// Bytes an entry takes in the file, with its padding.
constexpr std::uint64_t entry_span(std::uint64_t payload_bytes) {
  return (sizeof(EntryHead) + payload_bytes + kEntryAlign - 1) & ~(kEntryAlign - 1);
}

}  // namespace carya::io
