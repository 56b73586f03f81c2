#include "errors.h"

#include <array>
#include <cstring>
#include <string>

#include "text.h"

namespace carya::python {
namespace {

namespace py = pybind11;

struct Kind {
  Code code;
  const char* name;        ///< in the package
  PyObject** builtin;      ///< second base, so that `except FileNotFoundError` works too; may be null
  const char* what_to_do;  ///< last sentence, where the message itself does not say it
};

const std::array<Kind, 10>& kinds() {
  static const std::array<Kind, 10> all{{
      {Code::kInvalidArgument, "InvalidArgument", &PyExc_ValueError, "Correct what was given."},
      {Code::kNotFound, "NotFound", &PyExc_FileNotFoundError, "Check the path."},
      {Code::kPermission, "Permission", &PyExc_PermissionError, "Give this user the right to read it."},
      {Code::kCorrupt, "SampleError", nullptr, "Set on_error=\"replace\" or \"mask\" to go on without it."},
      {Code::kIo, "IoError", &PyExc_OSError, "Check the storage, then list the dataset again."},
      {Code::kTimeout, "Timeout", &PyExc_TimeoutError, "Try again, or allow more time."},
      {Code::kExhausted, "Exhausted", &PyExc_MemoryError,
       "Lower `slots`, the batch or `read_ahead`, or raise the limit."},
      {Code::kUnsupported, "Unsupported", nullptr, "Run `carya doctor` to see what this machine offers."},
      {Code::kClosed, "Closed", nullptr, "Make a new Loader."},
      {Code::kForked, "ForkedError", nullptr,
       "Make a Loader of its own in the child, or start processes with spawn."},
  }};
  return all;
}

// Held for the life of the interpreter: types are never freed while their instances may live.
std::array<PyObject*, 10> types{};
PyObject* base_type = nullptr;

/// Whether the message ends by saying what to do, as "...; give a multiple of 8" does.
bool says_what_to_do(const std::string& message) {
  constexpr std::array kAdvice{"allowed: ", "give ",  "pass ", "put ", "pack ",   "unpack ", "install ",
                               "choose ",   "check ", "use ",  "end ", "decode ", "make ",   "see "};
  for (std::size_t end = message.find("; "); end != std::string::npos; end = message.find("; ", end + 2))
    for (const char* const advice : kAdvice)
      if (message.compare(end + 2, std::strlen(advice), advice) == 0) return true;
  return false;
}

std::string sentence(const Kind& kind, std::string message) {
  if (says_what_to_do(message)) return message;
  if (!message.empty() && message.back() != '.') message += ".";
  const bool no_ring = message.starts_with("io_uring") && kind.code != Code::kInvalidArgument;
  return message + " " +
         (no_ring ? "Allow io_uring (sysctl kernel.io_uring_disabled=0, and a seccomp profile that permits "
                    "io_uring_setup), or give io_engine=\"pread\" or \"auto\"."
                  : kind.what_to_do);
}

[[noreturn]] void raise_instance(const Kind& kind, PyObject* type, const std::string& message,
                                 const loader::Failure* failure, int sys_errno) {
  const py::object instance = py::reinterpret_borrow<py::object>(type)(message_text(sentence(kind, message)));
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
    if (kinds()[i].code == error.code)
      raise_instance(kinds()[i], types[i], error.message, nullptr, error.sys_errno);
  check_failed(__FILE__, __LINE__, "every code has an exception");
}

void raise(const loader::Failure& failure) {
  std::string message = "record " + std::to_string(failure.record);
  if (!failure.path.empty())
    message += " (" + failure.path + (failure.member.empty() ? "" : ", member " + failure.member) + ")";
  message += ": " + failure.error.message;
  for (std::size_t i = 0; i < kinds().size(); ++i)
    if (kinds()[i].code == failure.error.code)
      raise_instance(kinds()[i], types[i], message, &failure, failure.error.sys_errno);
  check_failed(__FILE__, __LINE__, "every code has an exception");
}

}  // namespace carya::python
