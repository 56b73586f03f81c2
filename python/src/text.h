#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "base/escape.h"

namespace carya::python {

/// A path as os.fsdecode gives it: bytes that are no UTF-8 become lone surrogates, so it opens the same file.
inline pybind11::str path_text(const std::string& bytes) {
  PyObject* text = PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
  if (text == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::str>(text);
}

inline pybind11::list path_list(const std::vector<std::string>& paths) {
  pybind11::list list;
  for (const std::string& path : paths) list.append(path_text(path));
  return list;
}

/// Words for people, which may quote a path or what somebody else wrote: as escaped() shows it, so it can
/// always be printed.
inline pybind11::str message_text(const std::string& bytes) {
  return pybind11::str(escaped(bytes, "\n\t"));
}

}  // namespace carya::python
