#pragma once

#include <pybind11/pybind11.h>

#include "loader/job/job.h"

namespace carya::python {

/// What `loader.stats()` shows, but for where the stream is made. None where nobody measured it.
pybind11::dict stream_figures(const loader::JobStats& stats);

/// An entry of `loader.quarantine()`.
pybind11::dict quarantine_entry(const loader::RecordError& failure);

/// Its `decode_index`, which `carya index` prints too.
pybind11::dict index_figures(const loader::DecodeIndexStats& stats);

}  // namespace carya::python
