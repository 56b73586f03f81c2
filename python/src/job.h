#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "loader/data/decode_index.h"

namespace carya::python {

/// The loader's option "auto", "off", "rows", "8" or "16".
loader::DecodeIndexOptions parse_decode_index(const std::string& text, const std::string& cache_dir);

void bind_job(pybind11::module_& module);

}  // namespace carya::python
