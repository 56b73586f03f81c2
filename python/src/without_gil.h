#pragma once

#include <Python.h>

namespace carya::python {

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

}  // namespace carya::python
