#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "transforms/op/json.h"
#include "transforms/op/op.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::transforms {

/// The "source" object of the pipeline document, checked: its canonical form and what each record brings.
struct SourceSpec {
  std::string json;                 ///< canonical
  std::string text;                 ///< one line for people
  std::vector<SourceField> fields;  ///< names are distinct
};

/// Errors: kInvalidArgument with the key, what was given and what to give.
Result<SourceSpec> parse_source(const Json& object);

/// The chain's state before its first op. Of an arrays source, `image` and every other uint8 array of its
/// height and width, with 1, 3 or 4 channels, are images; all else keeps its place whatever moves.
std::vector<FieldState> initial_states(const std::vector<SourceField>& fields);

}  // namespace carya::transforms
