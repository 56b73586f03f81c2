#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "loader/control/daemon_stream.h"
#include "loader/data/decode_index.h"
#include "loader/job/job_options.h"

namespace carya::python {

/// Which daemon a job is of. Its defaults are DaemonOptions'.
struct PyDaemonOptions {
  loader::DaemonOptions asked;
  bool goes_on = true;                           ///< without it, in this process; else its loss is an error
  pybind11::object arrays = pybind11::none();    ///< of an `arrays` source: dict of numpy arrays
  pybind11::object progress = pybind11::none();  ///< called with the records listed so far
};

/// Errors: InvalidArgument with the names that there are.
transforms::OnError policy_from_name(const std::string& name);
/// The loader's option "auto", "off", "rows", "8" or "16".
loader::DecodeIndexOptions decode_index_from_name(const std::string& name, const std::string& cache_dir);

/// The options of a job as objects with attributes, in the user's names and units: JobOptions, RemoteOptions,
/// DaemonOptions. Enumerations are their names. A new one has the defaults that loader/ has.
void bind_job_options(pybind11::module_& module);

}  // namespace carya::python
