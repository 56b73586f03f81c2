#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <map>
#include <memory>
#include <string>

#include "loader/data/dataset.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::python {

struct PyPipeline {
  std::shared_ptr<const transforms::Pipeline> pipeline;
};

/// A dataset, with the arrays whose memory it reads.
struct PyDataset {
  std::shared_ptr<const loader::Dataset> dataset;
  pybind11::list arrays;
};

/// The memory of numpy arrays by name; `memory` keeps them alive. Errors: InvalidArgument.
std::map<std::string, loader::ArrayMemory> array_memory(const pybind11::dict& arrays, pybind11::list& memory);

/// numpy's type of these values, and ml_dtypes' bfloat16. Errors: Unsupported (bfloat16 without that package).
pybind11::dtype numpy_dtype(DType dtype);

void bind_dataset(pybind11::module_& module);

}  // namespace carya::python
