#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "io/formats/flat_table.h"

namespace carya::io {

/// What a column's values are, as far as an index builder tells them apart.
enum class ArrowForm : std::uint8_t {
  kBytes,       ///< binary, string: offsets of 32 bits
  kLongBytes,   ///< large_binary, large_string: offsets of 64 bits
  kFixedBytes,  ///< fixed_size_binary
  kNumber,      ///< integers and floats of 8 to 64 bits
  kBool,        ///< a bit each
  kList,        ///< offsets of 32 bits
  kLongList,    ///< offsets of 64 bits
  kFixedList,   ///< fixed_size_list
  kStruct,
  kOther,  ///< what no field can be made of
};

/// A column, or what lies in one: a struct's field, a list's item.
struct ArrowColumn {
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::string path;  ///< names from the top, with dots: "image.bytes"
  std::string type;  ///< in words, for messages
  ArrowForm form = ArrowForm::kOther;
  DType dtype = DType::kUint8;  ///< kNumber
  std::uint64_t width = 0;      ///< kFixedBytes: bytes; kFixedList: items
  std::uint32_t node = 0;       ///< of a record batch's nodes
  std::uint32_t buffer = 0;     ///< the first of its buffers, in a batch without view columns
  std::uint32_t views = 0;      ///< columns of views before it: each has as many buffers as a batch says
  std::uint32_t parent = kNone;
  std::uint32_t child = kNone;  ///< the first
};

/// The columns of an Arrow file, in the order in which a record batch lists their nodes and buffers.
struct ArrowSchema {
  std::vector<ArrowColumn> columns;
  std::uint32_t nodes = 0;
  std::uint32_t buffers = 0;  ///< without those of views

  /// "image (struct), image.bytes (binary)", for messages: what a field can be made of.
  std::string description() const;
  /// The column with this path; kNone. Errors: kInvalidArgument (two have it).
  Result<std::uint32_t> find(std::string_view path) const;
};

/// From the table `Schema` of a message. Errors: kCorrupt (no schema; whoever calls looks at `broken` too),
/// kUnsupported (big-endian, a type that is not known, more than 64 levels or 65,536 columns).
/// Source: Apache Arrow, Columnar format 1.5, Schema.fbs and "Serialization and interprocess communication"
Result<ArrowSchema> read_arrow_schema(const FlatTable& schema);

}  // namespace carya::io
