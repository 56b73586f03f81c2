#pragma once

#include <pybind11/pybind11.h>

namespace carya::python {

/// Scenarios of remote workers on simulated time (autotune/simulator).
void bind_simulation(pybind11::module_& module);

}  // namespace carya::python
