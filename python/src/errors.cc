#include "errors.h"

#include <fmt/core.h>
#include <array>
#include <string>

#include "text.h"

namespace carya::python {
namespace {

namespace py = pybind11;

struct Kind {
  Code code;
  const char* name;    ///< in the package
  PyObject** builtin;  ///< second base, so that `except FileNotFoundError` works too; may be null
};

const std::array<Kind, 10>& kinds() {
  static const std::array<Kind, 10> all{{
      {Code::kInvalidArgument, "InvalidArgument", &PyExc_ValueError},
      {Code::kNotFound, "NotFound", &PyExc_FileNotFoundError},
      {Code::kPermission, "Permission", &PyExc_PermissionError},
      {Code::kCorrupt, "SampleError", nullptr},
      {Code::kIo, "IoError", &PyExc_OSError},
      {Code::kTimeout, "Timeout", &PyExc_TimeoutError},
      {Code::kExhausted, "Exhausted", &PyExc_MemoryError},
      {Code::kUnsupported, "Unsupported", nullptr},
      {Code::kClosed, "Closed", nullptr},
      {Code::kForked, "ForkedError", nullptr},
  }};
  return all;
}

// Held for the life of the interpreter: types are never freed while their instances may live.
std::array<PyObject*, 10> types{};
PyObject* base_type = nullptr;

[[noreturn]] void raise_instance(PyObject* type, const std::string& message,
                                 const loader::RecordError* failure, int sys_errno) {
  const py::object instance = py::reinterpret_borrow<py::object>(type)(message_text(message));
  if (sys_errno != 0) instance.attr("errno") = sys_errno;
  if (failure != nullptr) {
    instance.attr("record") = failure->record;
    instance.attr("path") = path_text(failure->path);
    instance.attr("member") = path_text(failure->member);
    instance.attr("offset") = failure->offset;
    instance.attr("stage") = failure->stage;
    instance.attr("reason") = message_text(failure->reason);
    instance.attr("epoch") = failure->epoch;
    instance.attr("position") = failure->position;
  }
  PyErr_SetObject(type, instance.ptr());
  throw py::error_already_set();
}

}  // namespace

void bind_errors(py::module_& module) {
  base_type = PyErr_NewExceptionWithDoc("carya.Error",
                                        "Base of everything Carya raises; `code` is the kind in one word.",
                                        PyExc_Exception, nullptr);
  module.attr("Error") = py::reinterpret_borrow<py::object>(base_type);
  for (std::size_t i = 0; i < kinds().size(); ++i) {
    const Kind& kind = kinds()[i];
    py::list bases;
    bases.append(py::reinterpret_borrow<py::object>(base_type));
    if (kind.builtin != nullptr) bases.append(py::reinterpret_borrow<py::object>(*kind.builtin));
    py::dict members;
    members["code"] = std::string(code_name(kind.code));
    types[i] = PyErr_NewException((std::string("carya.") + kind.name).c_str(), py::tuple(bases).ptr(),
                                  members.ptr());
    module.attr(kind.name) = py::reinterpret_borrow<py::object>(types[i]);
  }
}

void raise(const Error& error) {
  for (std::size_t i = 0; i < kinds().size(); ++i)
    if (kinds()[i].code == error.code) raise_instance(types[i], error.message, nullptr, error.sys_errno);
  check_failed(__FILE__, __LINE__, "every code has an exception");
}

void raise(const loader::RecordError& failure) {
  std::string message = fmt::format("record {}", failure.record);
  if (!failure.path.empty())
    message += " (" + failure.path + (failure.member.empty() ? "" : ", member " + failure.member) + ")";
  message += ": " + failure.error.message;
  if (failure.error.code == Code::kExhausted && failure.error.message.find("; ") == std::string::npos)
    message += "; give fewer threads=, a smaller batch or read_ahead=, or raise the memory limit";
  if (failure.error.code == Code::kCorrupt && failure.error.message.find("on_error=") == std::string::npos) {
    const bool advised = failure.error.message.find("; ") != std::string::npos;
    message += std::string(advised ? "; or give" : "; give") +
               " on_error=\"replace\" or \"mask\" to go on without it";
  }
  for (std::size_t i = 0; i < kinds().size(); ++i)
    if (kinds()[i].code == failure.error.code)
      raise_instance(types[i], message, &failure, failure.error.sys_errno);
  check_failed(__FILE__, __LINE__, "every code has an exception");
}

}  // namespace carya::python
