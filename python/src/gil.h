#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace carya::python {

namespace py = pybind11;

/// Gives the GIL up while it lives. Unlike pybind11's own, it may be left by unwinding: a daemon thread that
/// asks for the GIL of an interpreter that is ending is ended by the interpreter (pthread_exit), through this
/// destructor.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() noexcept(false) { PyEval_RestoreThread(state_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// Calls the user's function now and then while the GIL is free; remembers what it raised.
class ProgressCall {
 public:
  explicit ProgressCall(py::object function) : function_(std::move(function)) {}
  bool operator()(std::uint64_t seen) {
    const py::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) {
      raised_.emplace();
      return false;
    }
    if (function_.is_none()) return true;
    try {
      return py::cast<bool>(function_(seen));
    } catch (py::error_already_set& raised) {
      raised_.emplace(std::move(raised));
      return false;
    }
  }
  void rethrow() {
    if (raised_) throw py::error_already_set(*raised_);
  }

 private:
  py::object function_;
  std::optional<py::error_already_set> raised_;
};

}  // namespace carya::python
