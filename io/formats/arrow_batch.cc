#include "io/formats/arrow_batch.h"

#include <algorithm>
#include <cstring>

namespace carya::io {
namespace {

using Form = ArrowForm;
using Kind = RecordField::Kind;

bool bit(std::span<const std::byte> bits, std::uint64_t i) {
  return (static_cast<unsigned>(bits[i / 8]) >> (i % 8) & 1) != 0;
}

/// Whether a value in [begin, end) is null.
bool any_null(std::span<const std::byte> bits, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t i = begin; !bits.empty() && i < end; ++i)
    if (!bit(bits, i)) return true;
  return false;
}

}  // namespace

void ArrowValues::fail(std::uint64_t row, Fault what, std::uint64_t got) {
  faults[row] = static_cast<std::uint8_t>(what);
  places[row].bytes = got;
}

ArrowBatch::ArrowBatch(FileWindow& file, const ArrowSchema& schema, const FlatTable& table,
                       std::uint64_t begin, std::uint64_t bytes)
    : file_(file), schema_(schema), begin_(begin), bytes_(bytes) {
  const auto rows = table.number<std::int64_t>(0);
  const FlatVector nodes = table.vector(1, 16), buffers = table.vector(2, 16), views = table.vector(4, 8);
  lies_ = rows < 0 || nodes.size() != schema.nodes || buffers.size() < schema.buffers;
  if (lies_) return;
  rows_ = static_cast<std::uint64_t>(rows);
  for (std::uint32_t i = 0; i < nodes.size(); ++i)
    nodes_.push_back({nodes.number<std::uint64_t>(i, 0, 2), nodes.number<std::uint64_t>(i, 1, 2)});
  for (std::uint32_t i = 0; i < buffers.size(); ++i)
    buffers_.push_back({buffers.number<std::uint64_t>(i, 0, 2), buffers.number<std::uint64_t>(i, 1, 2)});
  views_.push_back(0);
  for (std::uint32_t i = 0; i < views.size(); ++i) {
    const auto more = views.number<std::uint64_t>(i);
    if (more > buffers.size()) lies_ = true;
    views_.push_back(views_.back() +
                     static_cast<std::uint32_t>(std::min<std::uint64_t>(more, buffers.size())));
  }
}

ArrowBatch::Span ArrowBatch::span(const ArrowColumn& column, std::uint32_t buffer) {
  const std::uint64_t number = std::uint64_t{column.buffer} + buffer +
                               (column.views < views_.size() ? views_[column.views] : UINT32_MAX);
  if (number >= buffers_.size() || buffers_[number].offset > bytes_ ||
      buffers_[number].bytes > bytes_ - buffers_[number].offset) {
    lies_ = true;
    return {};
  }
  return {begin_ + buffers_[number].offset, buffers_[number].bytes};
}

Result<std::vector<std::byte>> ArrowBatch::copy(Span place) {
  ASSIGN(const auto bytes, file_.at(place.offset, place.bytes));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

Result<std::vector<std::int64_t>> ArrowBatch::numbers(const ArrowColumn& column, std::uint32_t buffer,
                                                      DType dtype, std::uint64_t count) {
  const Span place = span(column, buffer);
  const std::uint64_t each = dtype_bytes(dtype);
  if (count > place.bytes / each) {
    // A column of no values need not have even its first offset.
    lies_ = lies_ || values_of(column) != 0;
    return std::vector<std::int64_t>(lies_ ? 0 : count);
  }
  std::vector<std::int64_t> numbers(count);
  constexpr std::uint64_t kAtOnce = 16'384;
  const auto unused = static_cast<unsigned>(64 - 8 * each);
  const bool has_sign = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32;
  for (std::uint64_t first = 0; first < count; first += kAtOnce) {
    const std::uint64_t some = std::min(kAtOnce, count - first);
    ASSIGN(const auto bytes, file_.at(place.offset + first * each, some * each));
    for (std::uint64_t i = 0; i < some; ++i) {
      std::uint64_t value = 0;
      std::memcpy(&value, bytes.data() + i * each, each);
      numbers[first + i] =
          has_sign ? static_cast<std::int64_t>(value << unused) >> unused : static_cast<std::int64_t>(value);
    }
  }
  return numbers;
}

Result<std::vector<std::byte>> ArrowBatch::validity(const ArrowColumn& column) {
  std::vector<std::byte> none;
  if (!has_nulls(column)) return none;
  Span place = span(column, 0);
  const std::uint64_t bytes = values_of(column) / 8 + (values_of(column) % 8 != 0 ? 1 : 0);
  lies_ = lies_ || place.bytes < bytes;
  if (lies_) return none;
  place.bytes = bytes;
  return copy(place);
}

/// A null in the column, or in a struct that it lies in, is a value that is missing.
Status ArrowBatch::mark_nulls(const ArrowColumn& column, ArrowValues& values) {
  for (const ArrowColumn* up = &column;;) {
    if (values_of(*up) != rows_) lies_ = true;
    if (lies_) return {};
    ASSIGN(const auto bits, validity(*up));
    if (!bits.empty() && !lies_)
      for (std::uint64_t row = 0; row < rows_; ++row)
        if (!bit(bits, row)) values.fail(row, Fault::kMissing, 0);
    if (up->parent == ArrowColumn::kNone) return {};
    up = &schema_.columns[up->parent];
  }
}

Result<ArrowValues> ArrowBatch::read(std::uint32_t number, const RecordField& field) {
  const ArrowColumn& column = schema_.columns[number];
  ArrowValues values;
  // What a value takes at least bounds the rows, so that what a batch claims is no reason to make memory.
  if (rows_ > bytes_ * (column.form == Form::kBool ? 8 : 1)) {
    lies_ = true;
    return values;
  }
  values.faults.resize(rows_);
  values.places.resize(rows_, {begin_, 0});
  if (field.kind == Kind::kTensor) values.tensor_at.resize(rows_);
  TRY(mark_nulls(column, values));
  if (!lies_) {
    const bool bytes =
        column.form == Form::kBytes || column.form == Form::kLongBytes || column.form == Form::kFixedBytes;
    if (bytes) TRY(read_ranges(column, values));
    if (field.kind == Kind::kLabel) TRY(read_labels(column, values));
    if (field.kind == Kind::kTensor)
      TRY(bytes ? read_raw(field, values) : read_tensors(column, field, values));
  }
  return values;
}

Status ArrowBatch::read_ranges(const ArrowColumn& column, ArrowValues& values) {
  if (column.form == Form::kFixedBytes) {
    const Span data = span(column, 1);
    if (column.width != 0 && rows_ > data.bytes / column.width) lies_ = true;
    for (std::uint64_t row = 0; row < rows_ && !lies_; ++row)
      if (!values.is_broken(row)) values.places[row] = {data.offset + row * column.width, column.width};
    return {};
  }
  const DType dtype = column.form == Form::kLongBytes ? DType::kInt64 : DType::kInt32;
  ASSIGN(const auto offsets, numbers(column, 1, dtype, rows_ + 1));
  const Span data = span(column, 2);
  if (lies_) return {};
  for (std::uint64_t row = 0; row < rows_; ++row) {
    if (values.is_broken(row)) continue;
    const std::int64_t begin = offsets[row], end = offsets[row + 1];
    if (begin < 0 || begin > end || static_cast<std::uint64_t>(end) > data.bytes)
      values.fail(row, Fault::kMalformed, 0);
    else
      values.places[row] = {data.offset + static_cast<std::uint64_t>(begin),
                            static_cast<std::uint64_t>(end - begin)};
  }
  return {};
}

Status ArrowBatch::read_labels(const ArrowColumn& column, ArrowValues& values) {
  const Span place = span(column, 1);
  if (column.form == Form::kBool) {
    if (rows_ > 8 * place.bytes) lies_ = true;
    if (lies_) return {};
    ASSIGN(const auto bits, copy(place));
    for (std::uint64_t row = 0; row < rows_; ++row) values.labels.push_back(bit(bits, row));
    return {};
  }
  ASSIGN(values.labels, numbers(column, 1, column.dtype, rows_));
  const std::uint64_t each = dtype_bytes(column.dtype);
  for (std::uint64_t row = 0; row < rows_ && !lies_; ++row) {
    if (values.is_broken(row)) continue;
    values.places[row] = {place.offset + row * each, each};
    if (column.dtype == DType::kUint64 && values.labels[row] < 0) values.fail(row, Fault::kOtherKind, 0);
  }
  return {};
}

/// The items of each row at the innermost level. Rows whose lists are not regular are broken.
Result<ArrowBatch::Leaf> ArrowBatch::descend(const ArrowColumn& column, ArrowValues& values) {
  Leaf leaf{.column = &column, .items = std::vector<Items>(rows_)};
  for (std::uint64_t row = 0; row < rows_; ++row) leaf.items[row] = {row, row + 1};
  while (leaf.column->form != Form::kNumber && leaf.column->form != Form::kBool) {
    const ArrowColumn& list = *leaf.column;
    const ArrowColumn& item = schema_.columns[list.child];
    std::vector<std::int64_t> offsets;
    if (list.form != Form::kFixedList) {
      const DType dtype = list.form == Form::kLongList ? DType::kInt64 : DType::kInt32;
      if (values_of(list) >= span(list, 1).bytes / dtype_bytes(dtype) && values_of(list) != 0) lies_ = true;
      if (lies_) return leaf;
      ASSIGN(offsets, numbers(list, 1, dtype, values_of(list) + 1));
      // No two lists share items, so that looking at all of them takes no longer than there are items.
      if (!std::ranges::is_sorted(offsets)) lies_ = true;
    } else if (list.width != 0 && values_of(list) > values_of(item) / list.width) {
      lies_ = true;
    }
    if (lies_) return leaf;
    for (std::uint64_t row = 0; row < rows_; ++row) {
      Items& items = leaf.items[row];
      if (values.is_broken(row)) continue;
      if (list.form == Form::kFixedList) {
        items = {items.begin * list.width, items.end * list.width};
        continue;
      }
      const std::int64_t first = offsets[items.begin], last = offsets[items.end];
      if (first < 0 || static_cast<std::uint64_t>(last) > values_of(item)) {
        values.fail(row, Fault::kMalformed, 0);
        continue;
      }
      const std::int64_t each = items.begin < items.end ? offsets[items.begin + 1] - first : 0;
      bool regular = true;
      for (std::uint64_t i = items.begin; regular && i < items.end; ++i)
        regular = offsets[i + 1] - offsets[i] == each;
      if (!regular)
        values.fail(row, Fault::kOtherKind, 0);
      else
        items = {static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last)};
    }
    ASSIGN(const auto bits, validity(item));
    if (lies_) return leaf;
    for (std::uint64_t row = 0; row < rows_; ++row)
      if (!values.is_broken(row) && any_null(bits, leaf.items[row].begin, leaf.items[row].end))
        values.fail(row, Fault::kOtherKind, 0);
    leaf.column = &item;
  }
  return leaf;
}

Status ArrowBatch::read_tensors(const ArrowColumn& column, const RecordField& field, ArrowValues& values) {
  ASSIGN(const Leaf leaf, descend(column, values));
  const Span data = span(*leaf.column, 1);
  const bool bits = leaf.column->form == Form::kBool;
  const std::uint64_t each = bits ? 1 : dtype_bytes(leaf.column->dtype);
  const std::uint64_t there = bits ? 8 * data.bytes : data.bytes / each;
  for (std::uint64_t row = 0; row < rows_ && !lies_; ++row) {
    if (values.is_broken(row)) continue;
    const Items items = leaf.items[row];
    if (items.end - items.begin != field.values) {
      values.fail(row, Fault::kOtherCount, items.end - items.begin);
      continue;
    }
    if (items.end > there) {
      lies_ = true;
      return {};
    }
    const std::uint64_t begin = bits ? items.begin / 8 : items.begin * each;
    const std::uint64_t end = bits ? (items.end + 7) / 8 : items.end * each;
    ASSIGN(const auto bytes, file_.at(data.offset + begin, end - begin));
    values.places[row] = {data.offset + begin, end - begin};
    if (!bits) {
      TRY(add_tensor(row, bytes, values));
      continue;
    }
    std::vector<std::byte> unpacked;
    for (std::uint64_t i = items.begin; i < items.end; ++i)
      unpacked.push_back(static_cast<std::byte>(bit(bytes, i - 8 * begin)));
    TRY(add_tensor(row, unpacked, values));
  }
  return {};
}

Status ArrowBatch::add_tensor(std::uint64_t row, std::span<const std::byte> bytes, ArrowValues& values) {
  if (values.tensors.size() + bytes.size() > kColumnBytesMax)
    return fail(
        Code::kExhausted,
        "tensors: those of one record batch take more memory than there is for all; leave large ones out");
  values.tensor_at[row] = values.tensors.size();
  values.tensors.insert(values.tensors.end(), bytes.begin(), bytes.end());
  return {};
}

/// Tensors whose bytes are stored as they are.
Status ArrowBatch::read_raw(const RecordField& field, ArrowValues& values) {
  for (std::uint64_t row = 0; row < rows_ && !lies_; ++row) {
    if (values.is_broken(row)) continue;
    const RecordIndex::Range place = values.places[row];
    if (place.bytes != field.row_bytes()) {
      values.fail(row, Fault::kOtherBytes, place.bytes);
      continue;
    }
    ASSIGN(const auto bytes, file_.at(place.offset, place.bytes));
    TRY(add_tensor(row, bytes, values));
  }
  return {};
}

}  // namespace carya::io
