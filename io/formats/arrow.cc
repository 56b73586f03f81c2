#include "io/formats/arrow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/escape.h"
#include "io/formats/arrow_batch.h"
#include "io/formats/arrow_schema.h"

namespace carya::io {
namespace {

using Kind = RecordField::Kind;
using Form = ArrowForm;

constexpr std::uint32_t kMark = 0xffffffff;  // begins each message
constexpr std::uint64_t kHeadBytes = 8;      // of a message: the mark and the size of its metadata
constexpr std::int32_t kMetadataBytesMax = 64 << 20;
constexpr std::uint8_t kSchemaMessage = 1, kRecordBatchMessage = 3;

class ArrowFile {
 public:
  ArrowFile(const std::string& subject, FileWindow& file, const RecordSpec& spec)
      : subject_(subject), file_(file), spec_(spec), index_(spec) {}

  Result<RecordIndex> run(ListingProgress& progress) {
    TRY(begin());
    while (at_ < file_.file_bytes() && !ended_) {
      TRY(take_message());
      if (const std::uint64_t more = index_.count() - told_; more >= kTellEvery) {
        told_ += more / kTellEvery * kTellEvery;
        if (!progress.add(more / kTellEvery * kTellEvery)) return listing_stopped();
      }
    }
    if (!schema_) return no_arrow("it has no schema");
    return std::move(index_);
  }

 private:
  std::unexpected<Error> no_arrow(const std::string& what) const {
    return fail(
        Code::kCorrupt,
        fmt::format("arrow {}: not an Arrow IPC file ({}, at byte {}); give a file that pyarrow.ipc or "
                    "datasets wrote, or copy it again",
                    subject_, what, at_));
  }
  std::unexpected<Error> refuse(Code code, const std::string& what) const {
    return fail(code, "arrow " + subject_ + ": " + what);
  }

  Status begin() {
    constexpr std::string_view kMagic = "ARROW1";
    constexpr std::uint64_t kMagicBytes = 8;  // with its padding
    if (file_.file_bytes() < kHeadBytes) return no_arrow("shorter than its head");
    ASSIGN(const auto head, file_.at(0, kMagicBytes));
    if (std::memcmp(head.data(), kMagic.data(), kMagic.size()) == 0) at_ = kMagicBytes;
    return {};
  }

  /// The file ends before what begins here does.
  Status cut_off(std::uint64_t missing) {
    if (!schema_) return no_arrow("it ends before its schema does");
    ended_ = true;
    TRY(index_.begin({at_, file_.file_bytes() - at_}));
    index_.fail(Fault::kCutOff, 0, missing);
    return {};
  }

  Status take_message() {
    const std::uint64_t left = file_.file_bytes() - at_;
    if (left < kHeadBytes) return cut_off(kHeadBytes - left);
    ASSIGN(const auto head, file_.at(at_, kHeadBytes));
    if (load_little<std::uint32_t>(head.data()) != kMark)
      return no_arrow(schema_ ? "no message" : "no message, or one of before Arrow 0.15");
    const auto size = load_little<std::int32_t>(head.data() + 4);
    ended_ = size == 0;
    if (ended_) return {};
    if (size < 0 || size > kMetadataBytesMax) return no_arrow("a message of impossible size");
    const auto metadata = static_cast<std::uint64_t>(size);
    if (metadata > left - kHeadBytes) return cut_off(metadata - (left - kHeadBytes));
    ASSIGN(const auto bytes, file_.at(at_ + kHeadBytes, metadata));
    message_.assign(bytes.begin(), bytes.end());
    FlatBuffer buffer{.bytes = message_};
    const FlatTable message = FlatTable::root(buffer);
    const auto type = message.number<std::uint8_t>(1);
    const auto body = message.number<std::int64_t>(3);
    if (buffer.broken || body < 0) return no_arrow("a message that is none");
    const std::uint64_t begin = at_ + kHeadBytes + metadata;
    if (static_cast<std::uint64_t>(body) > file_.file_bytes() - begin)
      return cut_off(static_cast<std::uint64_t>(body) - (file_.file_bytes() - begin));
    if (type == kSchemaMessage) TRY(take_schema(message.table(2), buffer));
    if (type == kRecordBatchMessage) {
      if (!schema_) return no_arrow("rows before their schema");
      TRY(take_batch(message.table(2), buffer, begin, static_cast<std::uint64_t>(body)));
    }
    at_ = begin + static_cast<std::uint64_t>(body);
    return {};
  }

  Status take_schema(const FlatTable& table, const FlatBuffer& buffer) {
    if (schema_) return no_arrow("a second schema");
    Result<ArrowSchema> read = read_arrow_schema(table);
    if (buffer.broken) return no_arrow("a schema that is none");
    if (!read) return refuse(read.error().code, read.error().message);
    schema_ = std::move(*read);
    index_.describe(schema_->description());
    for (std::size_t f = 0; f < spec_.fields.size(); ++f) TRY(find_field(f));
    return {};
  }

  Status find_field(std::size_t f) {
    const RecordField& field = spec_.fields[f];
    if (!field.key)
      return refuse(Code::kInvalidArgument, field.name + ": a row is not stored as one piece; give a column");
    Result<std::uint32_t> found = schema_->find(*field.key);
    if (found && *found != ArrowColumn::kNone && field.kind == Kind::kBytes &&
        schema_->columns[*found].form == Form::kStruct)
      if (const auto inner = schema_->find(*field.key + ".bytes"); inner && *inner != ArrowColumn::kNone)
        found = inner;
    if (!found) return refuse(found.error().code, field.name + ": " + found.error().message);
    if (*found == ArrowColumn::kNone) {
      missing_ = missing_ ? missing_ : std::optional(f);
      return {};
    }
    TRY(check_column(field, *found));
    index_.note_found(f);
    fields_.push_back({f, *found});
    return {};
  }

  Status check_column(const RecordField& field, std::uint32_t number) const {
    const ArrowColumn& column = schema_->columns[number];
    const auto other = [&](const std::string& wanted) {
      return refuse(Code::kInvalidArgument, fmt::format("{}: column {} is stored as {}; {}", field.name,
                                                        escaped(column.path), column.type, wanted));
    };
    for (std::uint32_t up = column.parent; up != ArrowColumn::kNone; up = schema_->columns[up].parent)
      if (schema_->columns[up].form != Form::kStruct)
        return other("it lies in a list: give the list itself among tensors");
    const bool bytes =
        column.form == Form::kBytes || column.form == Form::kLongBytes || column.form == Form::kFixedBytes;
    if (field.kind == Kind::kBytes && !bytes) return other("give a column of binary or string");
    if (field.kind == Kind::kLabel && column.form != Form::kBool &&
        !(column.form == Form::kNumber && column.dtype < DType::kFloat16))
      return other("give a column of integers as label");
    if (field.kind != Kind::kTensor || bytes) return {};
    const ArrowColumn* leaf = &column;
    while (leaf->form == Form::kList || leaf->form == Form::kLongList || leaf->form == Form::kFixedList) {
      if (leaf->child == ArrowColumn::kNone) return no_arrow("a list without items");
      leaf = &schema_->columns[leaf->child];
    }
    if (leaf->form != Form::kNumber && leaf->form != Form::kBool)
      return other("give a column of numbers, lists of numbers, or binary among tensors");
    const DType dtype = leaf->form == Form::kBool ? DType::kBool : leaf->dtype;
    return dtype == field.dtype ? Status() : other("give the dtype " + std::string(dtype_name(dtype)));
  }

  Status take_batch(const FlatTable& table, FlatBuffer& buffer, std::uint64_t begin, std::uint64_t bytes) {
    if (table.has(3)) {
      const bool lz4 = table.table(3).number<std::int8_t>(0) == 0;
      return refuse(Code::kUnsupported,
                    fmt::format("its rows are compressed with {}, so they cannot be read one "
                                "by one; write it without compression",
                                lz4 ? "lz4" : "zstd"));
    }
    ArrowBatch batch(file_, *schema_, table, begin, bytes);
    if (buffer.broken || batch.lies()) return no_arrow("a record batch that is none");
    const std::uint64_t rows = batch.rows();
    std::vector<ArrowValues> values;
    for (const Field& field : fields_) {
      ASSIGN(ArrowValues read, batch.read(field.column, spec_.fields[field.field]));
      if (buffer.broken || batch.lies()) return no_arrow("a record batch whose buffers lie");
      values.push_back(std::move(read));
    }
    // Without a column that is there, the number of rows is only what the batch says.
    const std::uint64_t some = fields_.empty() ? std::min(rows, bytes) : rows;
    for (std::uint64_t row = 0; row < some; ++row) TRY(take_row(row, begin, values));
    return {};
  }

  Status take_row(std::uint64_t row, std::uint64_t begin, const std::vector<ArrowValues>& values) {
    TRY(index_.begin(values.empty() || values[0].is_broken(row) ? RecordIndex::Range{begin, 0}
                                                                : values[0].places[row]));
    if (missing_) return index_.fail(Fault::kMissing, *missing_), Status();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i].is_broken(row))
        return index_.fail(values[i].fault(row), fields_[i].field, values[i].got(row)), Status();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t field = fields_[i].field;
      const Kind kind = spec_.fields[field].kind;
      if (kind == Kind::kBytes) index_.set_range(field, values[i].places[row]);
      if (kind == Kind::kLabel) index_.set_label(values[i].labels[row]);
      if (kind == Kind::kTensor)
        std::ranges::copy_n(values[i].tensors.data() + values[i].tensor_at[row],
                            static_cast<std::ptrdiff_t>(index_.row(field).size()), index_.row(field).data());
    }
    return {};
  }

  struct Field {
    std::size_t field;
    std::uint32_t column;
  };

  const std::string& subject_;
  FileWindow& file_;
  const RecordSpec& spec_;
  RecordIndex index_;
  std::uint64_t at_ = 0;  // where the next message begins
  bool ended_ = false;
  std::uint64_t told_ = 0;  // records that the progress knows of
  std::vector<std::byte> message_;
  std::optional<ArrowSchema> schema_;
  std::vector<Field> fields_;
  std::optional<std::size_t> missing_;  // the first field that the file has no column for
};

}  // namespace

Result<RecordIndex> index_arrow(const std::string& subject, FileWindow& file, const RecordSpec& spec,
                                ListingProgress& progress) {
  return ArrowFile(subject, file, spec).run(progress);
}

}  // namespace carya::io
