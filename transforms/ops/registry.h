#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "transforms/op/json.h"
#include "transforms/op/op.h"
#include "transforms/op/params.h"

namespace carya::transforms {

/// Make the op that this object of the pipeline document describes, after a check of every parameter. Errors:
/// kInvalidArgument with op, parameter, what was given and what to give.
Result<std::unique_ptr<Op>> parse_op(const Json& object);

/// Make the inner ops of an op from its list `ops`. They become the list's canonical value. `takes` returns whether an
/// op may be an inner op; `allowed` describes such ops in errors. Errors: kInvalidArgument, with the name of the outer
/// op first.
Result<std::vector<std::unique_ptr<Op>>> parse_inner(Params& params, bool (*takes)(const Op& op),
                                                     std::string_view allowed);

}  // namespace carya::transforms
