#include "daemon.h"

#include <pybind11/stl.h>

#include "base/escape.h"
#include "errors.h"
#include "gil.h"
#include "loader/control/daemon_stream.h"
#include "text.h"

namespace carya::python {
namespace {

namespace py = pybind11;
using loader::MessageType;

constexpr int kAskMs = 10'000;

std::string ask(const std::string& socket, MessageType question, const std::string& body,
                MessageType answer) {
  return unwrap([&] {
    const WithoutGil unlocked;
    return loader::ask_daemon(socket, question, body, answer, kAskMs);
  }());
}

std::string status(const std::string& socket) {
  const std::string body = ask(socket, MessageType::kStatus, loader::Message().body, MessageType::kStatusIs);
  return loader::to_json(unwrap(loader::decode<loader::DaemonStatus>(body)));
}

py::list logs(const std::string& socket, std::uint64_t lines) {
  const std::string body =
      ask(socket, MessageType::kLogs, encode(loader::LogsRequest{lines}), MessageType::kLogsAre);
  py::list lines_of_text;
  for (const std::string& line : unwrap(loader::decode<loader::LogsAre>(body)).lines)
    lines_of_text.append(message_text(line));
  return lines_of_text;
}

}  // namespace

void bind_daemon(py::module_& module) {
  module.def("escaped", [](const py::bytes& text) { return escaped(std::string(text)); }, py::arg("text"));
  module.def("daemon_socket", &loader::default_socket_path);
  module.def(
      "daemon_listens",
      [](const std::string& socket) { return loader::Channel::connect(socket).has_value(); },
      py::arg("socket"));
  module.def("daemon_status", &status, py::arg("socket"));
  module.def("daemon_logs", &logs, py::arg("socket"), py::arg("lines"));
  module.def(
      "daemon_drain",
      [](const std::string& socket) {
        ask(socket, MessageType::kDrain, loader::Message().body, MessageType::kDone);
      },
      py::arg("socket"));
  module.def(
      "daemon_stop_job",
      [](const std::string& socket, const std::string& job) {
        ask(socket, MessageType::kStopJob, encode(loader::StopJobRequest{job}), MessageType::kDone);
      },
      py::arg("socket"), py::arg("job"));
}

}  // namespace carya::python
