#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace carya::loader {

/// The range of a number in a document that somebody else wrote.
struct NumberRange {
  std::string_view field;  ///< "Attach.options.threads"; "[]": of each item of a list
  double lowest = 0;
  double highest = 0;
};

/// The one table of all numbers that clients of the daemon and hosts of a worker send: messages of PROTOCOL.md by
/// their names there, and RemotePlan and RemoteChunk (wire/FORMAT.md). A number without a row is refused. A test
/// compares the table with the documents' fields.
std::span<const NumberRange> number_ranges();

/// Checks a number against its range. Errors: kInvalidArgument, with the field, the number and what is allowed; also
/// for a field without a range.
Status check_number(std::string_view field, double number);

}  // namespace carya::loader
