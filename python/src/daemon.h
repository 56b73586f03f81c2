#pragma once

#include <pybind11/pybind11.h>

namespace carya::python {

/// Asking a daemon: whether it listens, its status, its log, to drain, to stop a job.
void bind_daemon(pybind11::module_& module);

}  // namespace carya::python
