#include "io/index/record_fault.h"

#include "base/error.h"
#include "base/escape.h"

namespace carya::io {
namespace {

std::string wanted(const RecordField& field) {
  if (field.kind == RecordField::Kind::kBytes) return "one value of bytes";
  if (field.kind == RecordField::Kind::kLabel) return "one integer";
  return std::to_string(field.values) + " of " + std::string(dtype_name(field.dtype)) + ", " +
         std::to_string(field.row_bytes()) + " B";
}

std::string of_record(const RecordFault& fault) {
  const std::string got = std::to_string(fault.got);
  switch (fault.what) {
    case Fault::kCutOff:
      return "the file ends " + got + " B before the record does; copy the file again, or write it anew";
    case Fault::kLengthSum:
      return "the checksum of the record's length is wrong, so that the " + got +
             " B from here to the file's end are no records; copy the file again, or write it anew";
    case Fault::kDataSum:
      return "the checksum of the record's data is wrong; copy the file again, or write it anew";
    case Fault::kTooLong:
      return "the record has " + got + " B; write records of less than 1 GiB";
    case Fault::kMalformed:
      return "the record is no message of the format, wrong at its byte " + got + "; write it anew";
    default:
      return "";
  }
}

}  // namespace

std::string fault_text(const RecordSpec& spec, const RecordFault& fault) {
  const std::string subject = std::string(format_name(spec.format)) + ": ";
  if (std::string text = of_record(fault); !text.empty()) return subject + text;
  CHECK(fault.field < spec.fields.size());
  const RecordField& field = spec.fields[fault.field];
  const std::string key = escaped(field.key ? *field.key : field.name);
  const std::string cure = "; give the record " + wanted(field) + " in it, or leave the field out";
  switch (fault.what) {
    case Fault::kMissing:
      return subject + "the record has no " + key + cure;
    case Fault::kOtherKind:
      return subject + key + " holds another kind of value" + cure;
    case Fault::kOtherCount:
      return subject + key + " has " + std::to_string(fault.got) + " values" + cure;
    default:
      return subject + key + " has " + std::to_string(fault.got) + " B" + cure;
  }
}

}  // namespace carya::io
