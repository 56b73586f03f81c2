#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/hash.h"

namespace carya::io {

/// Formats whose files hold records with named fields.
enum class RecordFormat : std::uint8_t { kTfrecord, kMds, kArrow };

/// "tfrecord", ...: as in the pipeline document.
std::string_view format_name(RecordFormat format);
/// The format of that name, if there is one.
std::optional<RecordFormat> format_from_name(std::string_view name);

/// What is wanted of each record.
struct RecordField {
  enum class Kind : std::uint8_t {
    kBytes,   ///< one string of bytes, of any length: its place in the file becomes a manifest
    kLabel,   ///< one integer
    kTensor,  ///< `values` numbers of `dtype`, copied out of the file when it is indexed
  };
  Kind kind = Kind::kBytes;
  std::string name;                ///< the pipeline's, for messages
  std::optional<std::string> key;  ///< the feature's or column's; nothing: the whole record (kBytes alone)
  DType dtype = DType::kUint8;     ///< kTensor
  std::uint64_t values = 0;        ///< kTensor, at least 1

  /// Of one record's tensor; the caller has bounded `values` to 2^32.
  std::uint64_t row_bytes() const {
    return kind == Kind::kTensor ? values * static_cast<std::uint64_t>(dtype_bytes(dtype)) : 0;
  }
};

struct RecordSpec {
  RecordFormat format = RecordFormat::kTfrecord;
  /// Whether the checksums of the data are checked while a file is indexed; those of lengths always are.
  bool check_data = true;
  std::vector<RecordField> fields;

  /// Of all that decides what an index of a file holds.
  Hash128 fingerprint() const;
};

}  // namespace carya::io
