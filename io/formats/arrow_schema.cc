#include "io/formats/arrow_schema.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/escape.h"

namespace carya::io {
namespace {

constexpr std::uint32_t kLevelsMax = 64, kColumnsMax = 65'536;
constexpr std::size_t kPathBytesMax = 1024;

/// Numbers of `Type` in Schema.fbs.
enum Type : std::uint8_t {
  kInt = 2,
  kFloatingPoint = 3,
  kBinary = 4,
  kUtf8 = 5,
  kBool = 6,
  kList = 12,
  kStruct = 13,
  kUnion = 14,
  kFixedSizeBinary = 15,
  kFixedSizeList = 16,
  kLargeBinary = 19,
  kLargeUtf8 = 20,
  kLargeList = 21,
  kBinaryView = 23,
  kUtf8View = 24,
};

/// Of each type: its name, and its buffers in a record batch (a dense union has one more).
struct Known {
  std::string_view name;
  std::uint32_t buffers;
};
constexpr std::array<Known, 27> kTypes{{{"none", 0},
                                        {"null", 0},
                                        {"int", 2},
                                        {"float", 2},
                                        {"binary", 3},
                                        {"string", 3},
                                        {"bool", 2},
                                        {"decimal", 2},
                                        {"date", 2},
                                        {"time", 2},
                                        {"timestamp", 2},
                                        {"interval", 2},
                                        {"list", 2},
                                        {"struct", 1},
                                        {"union", 1},
                                        {"fixed_size_binary", 2},
                                        {"fixed_size_list", 1},
                                        {"map", 2},
                                        {"duration", 2},
                                        {"large_binary", 3},
                                        {"large_string", 3},
                                        {"large_list", 2},
                                        {"run_end_encoded", 0},
                                        {"binary_view", 2},
                                        {"string_view", 2},
                                        {"list_view", 3},
                                        {"large_list_view", 3}}};

std::optional<DType> integer(std::int32_t bits, bool has_sign) {
  return dtype_from_name(fmt::format("{}int{}", has_sign ? "" : "u", bits));
}

std::optional<DType> floating(std::int16_t precision) {
  constexpr std::array kDtypes{DType::kFloat16, DType::kFloat32, DType::kFloat64};
  if (precision < 0 || precision > 2) return std::nullopt;
  return kDtypes[static_cast<std::size_t>(precision)];
}

class Reader {
 public:
  Result<ArrowSchema> run(const FlatTable& schema) {
    if (schema.number<std::int16_t>(0) != 0)
      return fail(Code::kUnsupported, "its numbers are big-endian; write it anew on a little-endian machine");
    const FlatVector fields = schema.vector(1, 4);
    for (std::uint32_t i = 0; i < fields.size(); ++i) TRY(add(fields.table(i), ArrowColumn::kNone, 0));
    return std::move(made_);
  }

 private:
  Status add(const FlatTable& field, std::uint32_t parent, std::uint32_t level) {
    const auto type = field.number<std::uint8_t>(2);
    if (type >= kTypes.size()) return fail(Code::kUnsupported, fmt::format("type {} is not known", type));
    if (level == kLevelsMax || made_.columns.size() == kColumnsMax)
      return fail(Code::kUnsupported, "too many columns, or columns within columns");
    const bool dictionary = field.has(4);
    ArrowColumn column{.path = std::string(field.string(0)),
                       .type = std::string(kTypes[type].name),
                       .node = made_.nodes++,
                       .buffer = made_.buffers,
                       .views = views_,
                       .parent = parent};
    if (parent != ArrowColumn::kNone) column.path = made_.columns[parent].path + "." + column.path;
    if (dictionary) {
      column.type = "dictionary";
      made_.buffers += 2;
    } else {
      describe(column, type, field.table(3));
      made_.buffers += kTypes[type].buffers;
      if (type == kUnion) made_.buffers += field.table(3).number<std::int16_t>(0) == 1 ? 1 : 0;
      if (type == kBinaryView || type == kUtf8View) ++views_;
    }
    if (column.path.size() > kPathBytesMax)
      return fail(Code::kUnsupported, fmt::format("a column's name of {} B", column.path.size()));
    const auto self = static_cast<std::uint32_t>(made_.columns.size());
    made_.columns.push_back(std::move(column));
    if (dictionary) return {};
    const FlatVector children = field.vector(5, 4);
    for (std::uint32_t i = 0; i < children.size(); ++i) {
      if (i == 0) made_.columns[self].child = self + 1;
      TRY(add(children.table(i), self, level + 1));
    }
    return {};
  }

  static void describe(ArrowColumn& column, std::uint8_t type, const FlatTable& about) {
    switch (type) {
      case kInt:
      case kFloatingPoint: {
        const auto dtype = type == kInt
                               ? integer(about.number<std::int32_t>(0), about.number<std::uint8_t>(1) != 0)
                               : floating(about.number<std::int16_t>(0));
        if (!dtype) return;
        column.form = ArrowForm::kNumber;
        column.dtype = *dtype;
        column.type = dtype_name(*dtype);
        return;
      }
      case kBinary:
      case kUtf8:
        column.form = ArrowForm::kBytes;
        return;
      case kLargeBinary:
      case kLargeUtf8:
        column.form = ArrowForm::kLongBytes;
        return;
      case kBool:
        column.form = ArrowForm::kBool;
        return;
      case kList:
        column.form = ArrowForm::kList;
        return;
      case kLargeList:
        column.form = ArrowForm::kLongList;
        return;
      case kStruct:
        column.form = ArrowForm::kStruct;
        return;
      case kFixedSizeBinary:
      case kFixedSizeList: {
        const auto width = about.number<std::int32_t>(0);
        if (width < 0) return;
        column.form = type == kFixedSizeList ? ArrowForm::kFixedList : ArrowForm::kFixedBytes;
        column.width = static_cast<std::uint64_t>(width);
        column.type += fmt::format("[{}]", width);
        return;
      }
      default:
        return;
    }
  }

  ArrowSchema made_;
  std::uint32_t views_ = 0;
};

}  // namespace

std::string ArrowSchema::description() const {
  constexpr std::size_t kShown = 64;
  std::string text;
  std::size_t shown = 0;
  for (const ArrowColumn& column : columns) {
    const bool item =
        column.parent != ArrowColumn::kNone && columns[column.parent].form != ArrowForm::kStruct;
    if (item) continue;  // of a list: no field of its own
    if (++shown > kShown) return text + ", ...";
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", escaped(column.path), column.type);
  }
  return text;
}

Result<std::uint32_t> ArrowSchema::find(std::string_view path) const {
  std::uint32_t found = ArrowColumn::kNone;
  for (std::uint32_t i = 0; i < columns.size(); ++i) {
    if (columns[i].path != path) continue;
    if (found != ArrowColumn::kNone)
      return fail(Code::kInvalidArgument, "two columns are called " + escaped(path) + "; rename one of them");
    found = i;
  }
  return found;
}

Result<ArrowSchema> read_arrow_schema(const FlatTable& schema) {
  return Reader().run(schema);
}

}  // namespace carya::io
