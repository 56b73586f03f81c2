#pragma once

#include <pybind11/pybind11.h>

#include "loader/data/record_error.h"

namespace carya::python {

/// Make the exception types of the package and put them into `module`. The one place where codes become
/// exceptions.
void bind_errors(pybind11::module_& module);

/// Raise `error` as its exception. With the GIL.
[[noreturn]] void raise(const Error& error);
/// Raise a stream's failure: SampleError or IoError, with the record's address as attributes.
[[noreturn]] void raise(const loader::RecordError& failure);

/// The value, or its error raised. With the GIL.
template <typename T>
T unwrap(Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace carya::python
