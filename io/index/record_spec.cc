#include "io/index/record_spec.h"

#include "io/credentials/sigv4.h"

namespace carya::io {
namespace {

constexpr std::uint64_t kMeaning = 1;  // raised when the same bytes would be indexed otherwise

}  // namespace

std::string_view format_name(RecordFormat format) {
  switch (format) {
    case RecordFormat::kTfrecord:
      return "tfrecord";
    case RecordFormat::kMds:
      return "mds";
    case RecordFormat::kArrow:
      return "arrow";
  }
  return "records";
}

std::optional<RecordFormat> format_from_name(std::string_view name) {
  for (const RecordFormat format : {RecordFormat::kTfrecord, RecordFormat::kMds, RecordFormat::kArrow})
    if (format_name(format) == name) return format;
  return std::nullopt;
}

Hash128 RecordSpec::fingerprint() const {
  std::string all;
  const auto add = [&all](std::string_view part) {
    all += std::to_string(part.size()) + ":";
    all += part;
  };
  const auto add_number = [&add](auto number) { add(std::to_string(static_cast<std::uint64_t>(number))); };
  add_number(kMeaning);
  add(format_name(format));
  add_number(check_data);
  for (const RecordField& field : fields) {
    add_number(field.kind);
    add(field.key ? *field.key : "");
    add_number(field.key.has_value());
    add_number(field.dtype);
    add_number(field.values);
  }
  return sha256_half(all);
}

}  // namespace carya::io
