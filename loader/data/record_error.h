#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "loader/data/dataset.h"

namespace carya::loader {

/// One record that could not be delivered as it is: an entry of the quarantine, and the content of SampleError and
/// IoError.
struct RecordError {
  Error error{Code::kCorrupt, {}, 0};  ///< kCorrupt: bad data; anything else: storage
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;
  std::uint64_t record = 0;
  std::string path{};        ///< "" for arrays
  std::string member{};      ///< the member of a tar; else ""
  std::uint64_t offset = 0;  ///< the offset of the record's bytes in `path`
  std::string stage{};       ///< "decode_image", "read", ...
  std::string reason{};
  std::int64_t substitute = -1;  ///< the record that took its place under `replace`, else -1
};

/// The error of a record when there is no memory. Making it allocates nothing.
inline RecordError memory_failure(std::uint64_t epoch, std::uint64_t position,
                                  std::uint64_t record) noexcept {
  return {.error = out_of_memory(),
          .epoch = epoch,
          .position = position,
          .record = record,
          .stage = "loader",
          .reason = "out of memory"};
}

/// The failure of `record`, with its address from the dataset. The stage is the text before the first ": " of the
/// message.
inline RecordError make_failure(const Dataset& dataset, const Error& error, std::uint64_t epoch,
                                std::uint64_t position, std::uint64_t record) {
  RecordError failure{.error = error, .epoch = epoch, .position = position, .record = record};
  const io::RecordAddress address = dataset.address(record);
  failure.path = dataset.path(record);
  failure.member = address.member;
  failure.offset = address.offset;
  const auto colon = error.message.find(": ");
  failure.stage = colon == std::string::npos ? std::string("sample") : error.message.substr(0, colon);
  failure.reason = colon == std::string::npos ? error.message : error.message.substr(colon + 2);
  return failure;
}

}  // namespace carya::loader
