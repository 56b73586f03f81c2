#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "io/index/record_spec.h"

namespace carya::io {

/// Why a record is broken, as an index keeps it. The numbers are part of the stored form.
enum class Fault : std::uint32_t {
  kCutOff = 1,      ///< `got` bytes are missing at the file's end
  kLengthSum = 2,   ///< the checksum of the length is wrong; the `got` bytes up to the file's end are lost
  kDataSum = 3,     ///< the checksum of the data is wrong
  kTooLong = 4,     ///< `got` bytes
  kMalformed = 5,   ///< no message of the format; wrong at byte `got` of it
  kMissing = 6,     ///< the record has no such field
  kOtherKind = 7,   ///< the field holds another kind of value
  kOtherCount = 8,  ///< the field has `got` values
  kOtherBytes = 9,  ///< the field's value has `got` bytes
};
inline constexpr std::uint32_t kFaultMax = 9;

struct RecordFault {
  std::uint64_t record = 0;
  Fault what = Fault::kCutOff;
  std::uint32_t field = 0;  ///< of the spec, where the fault is a field's
  std::uint64_t got = 0;
};
static_assert(sizeof(RecordFault) == 24 && std::is_trivially_copyable_v<RecordFault>);

/// "tfrecord: ...": the message of a kCorrupt error about the record. CHECKs fault.field where one is meant.
std::string fault_text(const RecordSpec& spec, const RecordFault& fault);

}  // namespace carya::io
