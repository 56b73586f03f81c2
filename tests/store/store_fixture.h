#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "io/store/record_store.h"
#include "io/store/store_format.h"
#include "tests/io/temp_dir.h"

namespace carya::io {

inline constexpr StoreIdentity kTestIdentity{
    .dataset = {0x0123456789abcdef, 0xfedcba9876543210}, .kind = kDecodeIndexStore, .record_count = 100};

using Bytes = std::vector<std::byte>;

/// What record `record` holds in its version `version`: both at its front, then noise. Its size varies with
/// both.
inline Bytes payload_of(std::uint64_t record, std::uint32_t version, std::size_t bytes_max = 200) {
  std::mt19937 draw(static_cast<unsigned>(record * 7919 + version));
  Bytes bytes(16 + draw() % (bytes_max - 15));
  for (std::byte& b : bytes) b = static_cast<std::byte>(draw());
  std::memcpy(bytes.data(), &record, 8);
  std::memcpy(bytes.data() + 8, &version, 4);
  return bytes;
}

/// The entry, or nothing.
inline std::optional<Bytes> get(const RecordStore& store, std::uint64_t record) {
  Bytes out(4096);
  const auto bytes = store.get(record, out);
  if (!bytes) return std::nullopt;
  EXPECT_LE(*bytes, out.size());
  out.resize(*bytes);
  return out;
}

/// The version of the record's entry, -1 when there is none. Fails when the bytes are not what some append
/// wrote.
inline int version_of(const RecordStore& store, std::uint64_t record, std::size_t bytes_max = 200) {
  const auto bytes = get(store, record);
  if (!bytes) return -1;
  std::uint32_t version = 0;
  if (bytes->size() >= 12) std::memcpy(&version, bytes->data() + 8, 4);
  EXPECT_TRUE(*bytes == payload_of(record, version, bytes_max)) << "record " << record << " has wrong bytes";
  return static_cast<int>(version);
}

inline std::unique_ptr<RecordStore> open_store(const std::string& path, const StoreOptions& options = {}) {
  auto store = RecordStore::open(path, kTestIdentity, options);
  EXPECT_TRUE(store.has_value()) << (store ? "" : store.error().message);
  return store ? std::move(*store) : nullptr;
}

inline bool put(RecordStore& store, std::uint64_t record, std::uint32_t version) {
  return store.append(record, payload_of(record, version));
}

inline ::testing::AssertionResult ok(const Status& status) {
  if (status) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.error().message;
}

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void spill(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace carya::io
