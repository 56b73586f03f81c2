#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "io/formats/arrow_schema.h"
#include "io/index/file_window.h"
#include "io/index/record_fault.h"
#include "io/index/record_index.h"
#include "io/index/record_spec.h"

namespace carya::io {

/// What a record batch holds for one field of a spec, row by row.
struct ArrowValues {
  std::vector<std::uint8_t> faults;        ///< a Fault for each row, 0 for none
  std::vector<RecordIndex::Range> places;  ///< in the file; of a broken row, what its fault got
  std::vector<std::int64_t> labels;        ///< kLabel
  std::vector<std::byte> tensors;          ///< kTensor: of the rows that are not broken
  std::vector<std::uint64_t> tensor_at;    ///< kTensor: where a row's begins in it

  bool is_broken(std::uint64_t row) const { return faults[row] != 0; }
  Fault fault(std::uint64_t row) const { return static_cast<Fault>(faults[row]); }
  std::uint64_t got(std::uint64_t row) const { return places[row].bytes; }
  void fail(std::uint64_t row, Fault what, std::uint64_t got);
};

/// A record batch without compression: nodes and buffers of the columns of a schema, in a body that lies in the
/// file. Everything that it says is checked before it is used.
///
/// Threads: owner only.
class ArrowBatch {
 public:
  /// `table`: the message's `RecordBatch`; it, the schema and the window outlive this.
  ArrowBatch(FileWindow& file, const ArrowSchema& schema, const FlatTable& table, std::uint64_t begin,
             std::uint64_t bytes);

  /// Whether its nodes and buffers are not those of the schema, or lead outside of the body. Nothing that was read
  /// counts then.
  bool lies() const { return lies_; }
  std::uint64_t rows() const { return rows_; }
  /// What the column holds for the field; it was found fit for it. Errors: those of the window, kExhausted.
  Result<ArrowValues> read(std::uint32_t column, const RecordField& field);

 private:
  struct Span {
    std::uint64_t offset = 0, bytes = 0;
  };
  /// Items of a list, or of a list's list.
  struct Items {
    std::uint64_t begin = 0, end = 0;
  };
  struct Leaf {
    const ArrowColumn* column = nullptr;
    std::vector<Items> items;  // of each row
  };

  /// A buffer of the column, in the file; empty, and `lies_`, where it leads outside of the body.
  Span span(const ArrowColumn& column, std::uint32_t buffer);
  std::uint64_t values_of(const ArrowColumn& column) const { return nodes_[column.node].values; }
  bool has_nulls(const ArrowColumn& column) const { return nodes_[column.node].nulls != 0; }
  Result<std::vector<std::byte>> copy(Span place);
  /// `count` numbers of a buffer, widened; zeros where a column without values has none.
  Result<std::vector<std::int64_t>> numbers(const ArrowColumn& column, std::uint32_t buffer, DType dtype,
                                            std::uint64_t count);
  /// Bits of a column's validity: nothing where all are set.
  Result<std::vector<std::byte>> validity(const ArrowColumn& column);
  Status mark_nulls(const ArrowColumn& column, ArrowValues& values);
  Status read_ranges(const ArrowColumn& column, ArrowValues& values);
  Status read_labels(const ArrowColumn& column, ArrowValues& values);
  Status read_tensors(const ArrowColumn& column, const RecordField& field, ArrowValues& values);
  Status add_tensor(std::uint64_t row, std::span<const std::byte> bytes, ArrowValues& values);
  Status read_raw(const RecordField& field, ArrowValues& values);
  Result<Leaf> descend(const ArrowColumn& column, ArrowValues& values);

  FileWindow& file_;
  const ArrowSchema& schema_;
  const std::uint64_t begin_, bytes_;  // of the body
  std::uint64_t rows_ = 0;
  bool lies_ = false;
  struct Node {
    std::uint64_t values, nulls;
  };
  std::vector<Node> nodes_;
  std::vector<Span> buffers_;
  std::vector<std::uint32_t> views_;  // buffers of the first k columns of views together
};

}  // namespace carya::io
