#include "io/formats/mds.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/escape.h"

namespace carya::io {
namespace {

using Json = nlohmann::json;
using Kind = RecordField::Kind;
using Bytes = std::span<const std::byte>;

constexpr std::uint64_t kConfigBytesMax = 1 << 20;
constexpr std::size_t kMdsColumnsMax = 1024;
constexpr std::uint64_t kOffsetsAtOnce = 4096;

struct Column {
  std::string name, encoding;
  std::uint64_t bytes = 0;  // of every value; 0: told by each sample
};

/// Of a column's encoding, what its values are.
struct Encoding {
  std::optional<DType> dtype;  ///< of a scalar or an ndarray
  bool array = false;          ///< dtype or shape, or both, may be told by each value
  bool shape_told = false;
};

Encoding encoding_of(const std::string& name) {
  if (name == "int") return {.dtype = DType::kInt64};
  if (const auto scalar = dtype_from_name(name); scalar && *scalar != DType::kBool) return {.dtype = scalar};
  if (name != "ndarray" && !name.starts_with("ndarray:")) return {};
  Encoding encoding{.array = true};
  const std::size_t dtype = name.find(':');
  const std::size_t shape = dtype == std::string::npos ? dtype : name.find(':', dtype + 1);
  if (dtype != std::string::npos) encoding.dtype = dtype_from_name(name.substr(dtype + 1, shape - dtype - 1));
  encoding.shape_told = shape == std::string::npos;
  return encoding;
}

/// The dtype that an ndarray without one tells by a number.
std::optional<DType> array_dtype(std::uint8_t number) {
  switch (number) {
    case 8:
      return DType::kUint8;
    case 9:
      return DType::kInt8;
    case 16:
      return DType::kUint16;
    case 17:
      return DType::kInt16;
    case 18:
      return DType::kFloat16;
    case 32:
      return DType::kUint32;
    case 33:
      return DType::kInt32;
    case 34:
      return DType::kFloat32;
    case 64:
      return DType::kUint64;
    case 65:
      return DType::kInt64;
    case 66:
      return DType::kFloat64;
    default:
      return std::nullopt;
  }
}

class Shard {
 public:
  Shard(const std::string& subject, FileWindow& file, const RecordSpec& spec)
      : subject_(subject), file_(file), spec_(spec), index_(spec) {}

  Result<RecordIndex> run(ListingProgress& progress) {
    TRY(read_head());
    TRY(find_fields());
    index_.expect(count_);
    std::vector<std::uint32_t> offsets;
    for (std::uint64_t i = 0; i < count_; ++i) {
      if (i % kOffsetsAtOnce == 0) TRY(read_offsets(i, &offsets));
      TRY(take_sample(offsets[i % kOffsetsAtOnce], offsets[i % kOffsetsAtOnce + 1]));
      if (index_.count() % kTellEvery == 0 && !progress.add(kTellEvery)) return listing_stopped();
    }
    return std::move(index_);
  }

 private:
  struct Field {
    std::size_t field;
    std::size_t column;
    Encoding encoding;
  };

  std::unexpected<Error> no_shard(const std::string& what) const {
    return fail(Code::kCorrupt, "mds " + subject_ + ": not an MDS shard (" + what +
                                    "); give a folder that MDSWriter wrote, or copy it again");
  }

  Status check_not_compressed() {
    if (file_.file_bytes() < 4) return no_shard("shorter than its head");
    ASSIGN(const auto head, file_.at(0, 4));
    const auto magic = load_little<std::uint32_t>(head.data());
    const char* with = magic == 0xfd2fb528              ? "zstd"
                       : (magic & 0xffff) == 0x8b1f     ? "gzip"
                       : (magic & 0xffffff) == 0x685a42 ? "bzip2"
                                                        : nullptr;
    if (with == nullptr) return {};
    return fail(Code::kUnsupported, "mds " + subject_ + ": compressed with " + with +
                                        ", so samples cannot be read one by one; unpack the shards first, or "
                                        "write them with MDSWriter(compression=None)");
  }

  Status read_head() {
    TRY(check_not_compressed());
    ASSIGN(const auto head, file_.at(0, 4));
    count_ = load_little<std::uint32_t>(head.data());
    const std::uint64_t config = 4 * (count_ + 2);
    if (config > file_.file_bytes()) return no_shard("more samples than it has bytes");
    ASSIGN(const auto first, file_.at(4, 4));
    begin_ = load_little<std::uint32_t>(first.data());
    if (begin_ < config || begin_ > file_.file_bytes() || begin_ - config > kConfigBytesMax)
      return no_shard("samples that begin elsewhere");
    ASSIGN(const auto text, file_.at(config, begin_ - config));
    const auto* chars = reinterpret_cast<const char*>(text.data());
    const Json object = Json::parse(chars, chars + text.size(), nullptr, false);
    if (!object.is_object()) return no_shard("no JSON object behind the offsets");
    const auto list = [&object](const char* key) -> const Json* {
      const auto found = object.find(key);
      return found != object.end() && found->is_array() && found->size() <= kMdsColumnsMax ? &*found
                                                                                           : nullptr;
    };
    const Json *names = list("column_names"), *encodings = list("column_encodings"),
               *sizes = list("column_sizes");
    if (!names || !encodings || !sizes || names->size() != encodings->size() ||
        names->size() != sizes->size())
      return no_shard("columns without names, encodings or sizes");
    for (std::size_t c = 0; c < names->size(); ++c) {
      const Json &name = (*names)[c], &encoding = (*encodings)[c], &size = (*sizes)[c];
      const bool sized = size.is_number_unsigned() && size.get<std::uint64_t>() <= UINT32_MAX;
      if (!name.is_string() || !encoding.is_string() || !(size.is_null() || sized))
        return no_shard("a column without name, encoding or size");
      columns_.push_back(
          {name.get<std::string>(), encoding.get<std::string>(), sized ? size.get<std::uint64_t>() : 0});
      sizes_bytes_ += columns_.back().bytes == 0 ? 4 : 0;
    }
    return {};
  }

  Status find_fields() {
    std::string description;
    for (const Column& column : columns_)
      description +=
          (description.empty() ? "" : ", ") + escaped(column.name) + " (" + escaped(column.encoding) + ")";
    index_.describe(std::move(description));
    for (std::size_t f = 0; f < spec_.fields.size(); ++f) {
      const RecordField& field = spec_.fields[f];
      if (!field.key) {
        index_.note_found(f);
        continue;
      }
      const auto column = std::ranges::find(columns_, *field.key, &Column::name);
      if (column == columns_.end()) {
        missing_ = missing_ ? missing_ : std::optional(f);
        continue;
      }
      index_.note_found(f);
      TRY(check_encoding(field, *column));
      fields_.push_back(
          {f, static_cast<std::size_t>(column - columns_.begin()), encoding_of(column->encoding)});
    }
    return {};
  }

  Status check_encoding(const RecordField& field, const Column& column) const {
    const std::string& name = column.encoding;
    const Encoding encoding = encoding_of(name);
    const auto refuse = [&](Code code, const std::string& wanted) {
      return fail(code, "mds " + subject_ + ": " + field.name + ": column " + escaped(column.name) +
                            " is stored as " + escaped(name) + "; " + wanted);
    };
    if (name.find("pkl") != std::string::npos || name.find("pil") != std::string::npos)
      return refuse(Code::kUnsupported,
                    "write it as jpeg, png or bytes: pickles may hold code, and are not read");
    if (field.kind == Kind::kBytes && (encoding.dtype || encoding.array))
      return refuse(Code::kInvalidArgument, "give it as label or among tensors");
    const bool integer = encoding.dtype && !encoding.array && *encoding.dtype < DType::kFloat16;
    if (field.kind == Kind::kLabel && !integer && name != "str_int")
      return refuse(Code::kInvalidArgument, "give a column of integers as label");
    if (field.kind != Kind::kTensor || name == "bytes") return {};
    if (!encoding.dtype && !encoding.array)
      return refuse(Code::kInvalidArgument, "give a column of numbers, ndarray or bytes among tensors");
    if (encoding.dtype && *encoding.dtype != field.dtype)
      return refuse(Code::kInvalidArgument, "give the dtype " + std::string(dtype_name(*encoding.dtype)));
    return {};
  }

  /// offsets[k] of sample first + k, and the end of the last.
  Status read_offsets(std::uint64_t first, std::vector<std::uint32_t>* offsets) {
    const std::uint64_t some = std::min(kOffsetsAtOnce, count_ - first) + 1;
    ASSIGN(const auto bytes, file_.at(4 * (first + 1), 4 * some));
    offsets->resize(some);
    std::memcpy(offsets->data(), bytes.data(), bytes.size());
    return {};
  }

  Status take_sample(std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t last = file_.file_bytes();
    const bool inside = begin >= begin_ && begin <= end && end <= last;
    TRY(index_.begin(inside ? RecordIndex::Range{begin, end - begin}
                            : RecordIndex::Range{std::min(begin, last), 0}));
    if (!inside) {
      const bool cut = begin >= begin_ && begin <= end;
      index_.fail(cut ? Fault::kCutOff : Fault::kMalformed, 0, cut ? end - last : 0);
      return {};
    }
    if (missing_) return index_.fail(Fault::kMissing, *missing_), Status();
    if (end - begin < sizes_bytes_) return index_.fail(Fault::kMalformed, 0, end - begin), Status();
    ASSIGN(const auto sizes, file_.at(begin, sizes_bytes_));
    places_.clear();
    std::uint64_t at = begin + sizes_bytes_;
    std::size_t told = 0;
    for (const Column& column : columns_) {
      const std::uint64_t bytes =
          column.bytes != 0 ? column.bytes : load_little<std::uint32_t>(sizes.data() + 4 * told++);
      places_.push_back({at, bytes});
      at += bytes;  // at most 1,024 columns of 4 GiB
    }
    if (at != end) return index_.fail(Fault::kMalformed, 0, std::min(at, end) - begin), Status();
    for (const Field& field : fields_) {
      ASSIGN(const auto fault, take_field(field, places_[field.column]));
      if (fault) return index_.fail(*fault, field.field, got_), Status();
    }
    for (std::size_t f = 0; f < spec_.fields.size(); ++f)
      if (!spec_.fields[f].key) index_.set_range(f, {begin, end - begin});
    return {};
  }

  Result<std::optional<Fault>> take_field(const Field& from, RecordIndex::Range place) {
    const RecordField& field = spec_.fields[from.field];
    got_ = place.bytes;
    if (field.kind == Kind::kBytes) {
      index_.set_range(from.field, place);
      return std::nullopt;
    }
    // A label of more, or an array whose head does not even fit, is none; the head is at most 2 + 63 * 8 B.
    constexpr std::uint64_t kHeadMax = 512;
    if (place.bytes > field.row_bytes() + kHeadMax) return Fault::kOtherBytes;
    ASSIGN(const auto bytes, file_.at(place.offset, place.bytes));
    if (field.kind == Kind::kLabel) return take_label(from, bytes);
    return take_tensor(from, bytes);
  }

  std::optional<Fault> take_label(const Field& from, Bytes bytes) {
    if (!from.encoding.dtype) {
      const auto* text = reinterpret_cast<const char*>(bytes.data());
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(text, text + bytes.size(), value);
      if (error != std::errc{} || end != text + bytes.size()) return Fault::kOtherKind;
      index_.set_label(value);
      return std::nullopt;
    }
    const DType dtype = *from.encoding.dtype;
    if (bytes.size() != dtype_bytes(dtype)) return Fault::kOtherBytes;
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    const bool has_sign = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32;
    if (dtype == DType::kUint64 && value > INT64_MAX) return Fault::kOtherKind;
    const auto unused = static_cast<unsigned>(64 - 8 * bytes.size());
    index_.set_label(has_sign ? static_cast<std::int64_t>(value << unused) >> unused
                              : static_cast<std::int64_t>(value));
    return std::nullopt;
  }

  std::optional<Fault> take_tensor(const Field& from, Bytes bytes) {
    if (from.encoding.array) {
      const auto head = array_head(from, bytes);
      if (!head) return Fault::kOtherKind;
      bytes = bytes.subspan(*head);
    }
    got_ = bytes.size();
    const auto row = index_.row(from.field);
    if (bytes.size() != row.size()) return Fault::kOtherBytes;
    if (!bytes.empty()) std::memcpy(row.data(), bytes.data(), row.size());
    return std::nullopt;
  }

  /// How many bytes stand before an array's values; nothing when they are not of the tensor's dtype.
  std::optional<std::uint64_t> array_head(const Field& from, Bytes bytes) const {
    std::uint64_t at = 0;
    if (!from.encoding.dtype) {
      if (bytes.empty() || array_dtype(static_cast<std::uint8_t>(bytes[0])) != spec_.fields[from.field].dtype)
        return std::nullopt;
      at = 1;
    }
    if (from.encoding.shape_told) {
      if (at == bytes.size()) return std::nullopt;
      const auto told = static_cast<std::uint64_t>(bytes[at]);
      at += 1 + (told >> 2) * (std::uint64_t{1} << (told & 3));
    }
    return at <= bytes.size() ? std::optional(at) : std::nullopt;
  }

  const std::string& subject_;
  FileWindow& file_;
  const RecordSpec& spec_;
  RecordIndex index_;
  std::uint64_t count_ = 0;
  std::uint64_t begin_ = 0;        // of the first sample
  std::uint64_t sizes_bytes_ = 0;  // at the begin of each sample
  std::vector<Column> columns_;
  std::vector<Field> fields_;
  std::optional<std::size_t> missing_;  // the first field that the shard has no column for
  std::vector<RecordIndex::Range> places_;
  std::uint64_t got_ = 0;
};

}  // namespace

Result<RecordIndex> index_mds(const std::string& subject, FileWindow& file, const RecordSpec& spec,
                              ListingProgress& progress) {
  return Shard(subject, file, spec).run(progress);
}

}  // namespace carya::io
