#pragma once

#include <string>
#include <vector>

#include "transforms/op/op.h"
#include "transforms/op/params.h"
#include "transforms/op/tensor.h"

namespace carya::transforms {

/// Read the keys "dtype" and "shape" of one row of an array, which is called `name`. A fault is in `params`.
TensorSpec read_array_row(Params& params, const std::string& name);

/// Make pictures of the arrays that are some: `image`, if it is uint8 with 1, 3 or 4 channels behind height and width,
/// and every other such array of its height and width. Geometric ops move no others.
void find_pictures(std::vector<FieldState>& fields);

}  // namespace carya::transforms
