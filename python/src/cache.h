#pragma once

#include <pybind11/pybind11.h>

namespace carya::python {

/// What the commands `carya index` and `carya cache` call.
void bind_cache(pybind11::module_& module);

}  // namespace carya::python
