#include "io/store/store_format.h"

#include <cstring>

namespace carya::io {
namespace {

std::uint64_t header_hash(const StoreHeader& header) {
  return hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(StoreHeader, hash)));
}

}  // namespace

StoreHeader make_store_header(const StoreIdentity& identity, std::uint64_t salt) {
  StoreHeader header{};
  std::memcpy(header.magic, kStoreMagic, sizeof header.magic);
  header.version = kStoreVersion;
  header.kind = identity.kind;
  header.dataset_high = identity.dataset.high;
  header.dataset_low = identity.dataset.low;
  header.record_count = identity.record_count;
  header.salt = salt;
  header.hash = header_hash(header);
  return header;
}

bool has_store_magic(const StoreHeader& header) {
  return std::memcmp(header.magic, kStoreMagic, sizeof header.magic) == 0;
}

bool store_header_valid(const StoreHeader& header) {
  return has_store_magic(header) && header.version == kStoreVersion && header.reserved == 0 &&
         header.hash == header_hash(header) && header.record_count <= kStoreRecordsMax;
}

StoreIdentity identity_of(const StoreHeader& header) {
  return {.dataset = {header.dataset_high, header.dataset_low},
          .kind = header.kind,
          .record_count = header.record_count};
}

std::uint64_t entry_hash(const EntryHead& head, std::span<const std::byte> payload, std::uint64_t salt) {
  const auto before_hash = std::as_bytes(std::span(&head, 1)).first(offsetof(EntryHead, hash));
  return hash64(payload, hash64(before_hash, salt));
}

}  // namespace carya::io
