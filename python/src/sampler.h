#pragma once

#include <pybind11/pybind11.h>

namespace carya::python {

/// What a stream whose samples are made by Python functions is composed of: the order of records, steps and parts
/// of ranks, keys of random numbers, single samples of a native pipeline.
void bind_sampler(pybind11::module_& module);

}  // namespace carya::python
