#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "transforms/op/json.h"
#include "transforms/op/op.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::transforms {

/// The most records that a source or a view has.
inline constexpr std::int64_t kRecordsMax = std::int64_t{1} << 48;

/// The "source" object of the pipeline document after its check.
struct SourceSpec {
  std::string json;                 ///< the canonical form
  std::string text;                 ///< one line for people
  std::vector<SourceField> fields;  ///< what each record has; names are distinct
};

/// Parse and check the object. Errors: kInvalidArgument with the key, what was given and what to give.
Result<SourceSpec> parse_source(const Json& object);

/// The state of the chain before its first op. In an arrays source, `image` is an image, and so is every other uint8
/// array of its height and width with 1, 3 or 4 channels. All other arrays are not moved by geometric ops.
std::vector<FieldState> initial_states(const std::vector<SourceField>& fields);

}  // namespace carya::transforms
