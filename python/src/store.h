#pragma once

#include <pybind11/pybind11.h>

namespace carya::python {

/// Questions to stores: sizes, ranges and listings of objects.
void bind_store(pybind11::module_& module);

}  // namespace carya::python
