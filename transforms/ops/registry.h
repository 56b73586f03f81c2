#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "transforms/op/json.h"
#include "transforms/op/op.h"
#include "transforms/op/params.h"

namespace carya::transforms {

/// The op that this object of the pipeline document describes, every parameter checked.
/// Errors: kInvalidArgument with op, parameter, what was given and what to give.
Result<std::unique_ptr<Op>> parse_op(const Json& object);

/// The ops in the list `ops` of an op that does others; its canonical value is theirs. `takes` says which it
/// may hold, `allowed` says so in errors.
/// Errors: kInvalidArgument, with the name of the op that holds them first.
Result<std::vector<std::unique_ptr<Op>>> parse_inner(Params& params, bool (*takes)(const Op& op),
                                                     std::string_view allowed);

/// All op names, sorted.
std::vector<std::string_view> op_names();

}  // namespace carya::transforms
