#pragma once

#include <pybind11/pybind11.h>

namespace carya::python {

/// `Job`: one rank's stream in Python's hands.
void bind_job(pybind11::module_& module);

}  // namespace carya::python
