#include "io/index/record_spec.h"

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
  Hasher128 hasher;
  hasher.update(kMeaning);
  hasher.update(format_name(format));
  hasher.update(static_cast<std::uint64_t>(check_data));
  for (const RecordField& field : fields) {
    hasher.update(static_cast<std::uint64_t>(field.kind));
    hasher.update(std::string_view(field.key ? *field.key : ""));
    hasher.update(static_cast<std::uint64_t>(field.key.has_value()));
    hasher.update(static_cast<std::uint64_t>(field.dtype));
    hasher.update(field.values);
  }
  return hasher.digest();
}

}  // namespace carya::io
