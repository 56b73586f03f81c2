#include "daemon.h"

#include <pybind11/stl.h>

#include <array>
#include <vector>

#include "base/clock.h"
#include "base/escape.h"
#include "errors.h"
#include "gil.h"
#include "job_stats.h"
#include "loader/control/daemon_stream.h"
#include "loader/trace/perfetto.h"
#include "loader/trace/trace.h"
#include "loader/wire/compatibility.h"
#include "remote/fleet/dns_fleet.h"
#include "remote/pool/usage_query.h"
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

/// Returns the session, to stop it with.
std::uint64_t start_daemon_trace(const std::string& socket, std::uint64_t thread_events) {
  const std::string body =
      ask(socket, MessageType::kTrace, encode(loader::TraceRequest{.thread_events = thread_events}),
          MessageType::kTraceIs);
  return unwrap(loader::decode<loader::TraceIs>(body)).session;
}

py::bytes stop_daemon_trace(const std::string& socket, std::uint64_t session, const std::string& job) {
  const std::string body =
      ask(socket, MessageType::kTrace, encode(loader::TraceRequest{.session = session, .job = job}),
          MessageType::kTraceIs);
  return py::bytes(unwrap(loader::decode<loader::TraceIs>(body)).bytes);
}

py::bytes stop_trace(std::uint64_t session, const std::string& process) {
  return py::bytes(unwrap([&]() -> Result<std::string> {
    const WithoutGil unlocked;
    ASSIGN(const loader::TraceRecord record, loader::stop_trace(session));
    return loader::to_perfetto(record, {.process = process});
  }()));
}

/// Events of a stream that Python makes. `made_by` is its number among those of this process.
void note_calls(std::uint64_t made_by, const std::vector<std::array<std::int64_t, 7>>& calls) {
  if (!loader::trace_on()) return;
  for (const auto& [process, begin_ns, end_ns, chunk, step, rows, epoch] : calls)
    loader::trace_note({.kind = loader::TraceKind::kCall,
                        .lane = static_cast<std::uint32_t>(process),
                        .stream = loader::trace_stream(~made_by),
                        .begin_ns = begin_ns,
                        .end_ns = end_ns,
                        .of = static_cast<std::uint64_t>(chunk),
                        .step = static_cast<std::uint64_t>(step),
                        .rows = static_cast<std::uint64_t>(rows),
                        .value = static_cast<std::uint64_t>(epoch)});
}

/// The wait for a batch. `returned_ns`: when the trainer got the one before; 0: unknown.
void note_next(std::uint64_t made_by, std::int64_t returned_ns, std::int64_t asked_ns, std::uint64_t batch,
               std::uint64_t step, std::uint64_t rows, std::uint64_t epoch) {
  if (!loader::trace_on()) return;
  const std::uint64_t stream = loader::trace_stream(~made_by);
  if (returned_ns != 0)
    loader::trace_note({.kind = loader::TraceKind::kTrainer,
                        .stream = stream,
                        .begin_ns = returned_ns,
                        .end_ns = asked_ns,
                        .of = batch - 1});
  loader::trace_note({.kind = loader::TraceKind::kNext,
                      .stream = stream,
                      .begin_ns = asked_ns,
                      .end_ns = monotonic_ns(),
                      .of = batch,
                      .step = step,
                      .rows = rows,
                      .value = epoch});
}

/// What is known of a job's streams: `rank`, `stats` and `quarantine` as a loader has them, `explanation` as JSON.
py::list watch(const std::string& socket, const std::string& job) {
  const std::string body =
      ask(socket, MessageType::kWatch, encode(loader::WatchRequest{job}), MessageType::kWatchIs);
  py::list ranks;
  for (loader::RankWatched& one : unwrap(loader::decode<loader::WatchIs>(body)).ranks) {
    loader::JobStats stats;
    static_cast<loader::StreamStats&>(stats) = unwrap(loader::decode<loader::StreamStats>(one.stats));
    py::dict rank;
    rank["rank"] = one.rank;
    rank["stats"] = stream_figures(stats);
    rank["explanation"] = message_text(one.explanation);
    rank["placement"] = message_text(stats.placement);
    py::list broken;
    for (const loader::RecordError& failure : one.broken) broken.append(quarantine_entry(failure));
    rank["quarantine"] = broken;
    ranks.append(rank);
  }
  return ranks;
}

class TurnSeat {
 public:
  explicit TurnSeat(const std::string& socket)
      : seat_(unwrap([&] {
          const WithoutGil unlocked;
          return loader::TurnSeat::take(socket);
        }())) {}
  /// How many threads may be busy, and whether nobody else wants the cores.
  std::pair<std::uint32_t, bool> report(double weight, std::uint64_t used_ns, std::uint32_t wants) {
    const loader::TurnIs turn = unwrap([&] {
      const WithoutGil unlocked;
      return seat_.report({.weight = weight, .used_ns = used_ns, .wants = wants});
    }());
    return {turn.threads, turn.alone};
  }

 private:
  loader::TurnSeat seat_;
};

void bind_trace(py::module_& module) {
  module.def("trace_on", &loader::trace_on);
  module.def(
      "trace_start",
      [](std::uint64_t thread_events) {
        return unwrap(loader::start_trace({.thread_events = thread_events}));
      },
      py::arg("thread_events"));
  module.def("trace_stop", &stop_trace, py::arg("session"), py::arg("process"));
  module.def("trace_calls", &note_calls, py::arg("made_by"), py::arg("calls"));
  module.def("trace_next", &note_next, py::arg("made_by"), py::arg("returned_ns"), py::arg("asked_ns"),
             py::arg("batch"), py::arg("step"), py::arg("rows"), py::arg("epoch"));
  module.def("daemon_trace_start", &start_daemon_trace, py::arg("socket"), py::arg("thread_events"));
  module.def("daemon_trace_stop", &stop_daemon_trace, py::arg("socket"), py::arg("session"), py::arg("job"));
}

/// Who uses a worker. `tls`: certificate, key and authority; all empty: none.
py::dict worker_usage(const std::string& address, const std::array<std::string, 3>& tls,
                      const std::string& server_name, const std::string& token, bool insecure,
                      double seconds) {
  remote::UsageQuery query{.server_name = server_name, .insecure = insecure};
  query.hello = {.client = "carya fleet", .facts = loader::remote_facts(), .token = token};
  query.limit_ms = static_cast<std::uint64_t>(seconds * 1000);
  if (!tls[0].empty())
    query.tls = remote::TlsFiles{.certificate = tls[0], .key = tls[1], .authority = tls[2]};
  const remote::UsageIs usage = unwrap([&] {
    const WithoutGil unlocked;
    return remote::ask_usage(address, query);
  }());
  py::list clients;
  for (const remote::ClientUsage& one : usage.clients) {
    py::dict client;
    client["client"] = message_text(one.client);
    client["address"] = message_text(one.address);
    client["user"] = message_text(one.user);
    client["proven"] = one.proven;
    client["weight"] = static_cast<double>(one.weight) / remote::Ping::kOne;
    client["since_s"] = static_cast<double>(one.since_ms) / 1e3;
    client["asked_s"] =
        one.asks ? py::object(py::float_(static_cast<double>(one.asked_ms) / 1e3)) : py::none();
    client["saves_per_hour"] = static_cast<double>(one.worth) / 1e6;
    client["share"] = static_cast<double>(one.share) / remote::Pong::kAll;
    client["in_flight"] = one.in_flight;
    client["thread_s"] = static_cast<double>(one.thread_ms) / 1e3;
    clients.append(client);
  }
  py::dict found;
  found["server"] = message_text(usage.server);
  found["threads"] = usage.threads;
  found["drains"] = usage.drains;
  found["clients_all"] = usage.clients_all;
  found["clients"] = clients;
  return found;
}

/// The addresses that a "dns://" name stands for now.
std::vector<std::string> look_up_workers(const std::string& name) {
  return unwrap([&]() -> Result<std::vector<std::string>> {
    const WithoutGil unlocked;
    ASSIGN(const remote::DnsName parsed, remote::parse_dns_name(name));
    return remote::look_up_workers(parsed);
  }());
}

}  // namespace

void bind_daemon(py::module_& module) {
  module.def("worker_usage", &worker_usage, py::arg("address"), py::arg("tls"), py::arg("server_name"),
             py::arg("token"), py::arg("insecure"), py::arg("seconds"));
  module.def("look_up_workers", &look_up_workers, py::arg("name"));
  py::class_<TurnSeat>(module, "TurnSeat")
      .def(py::init<const std::string&>(), py::arg("socket"))
      .def("report", &TurnSeat::report, py::arg("weight"), py::arg("used_ns"), py::arg("wants"));
  bind_trace(module);
  module.def("escaped", [](const py::bytes& text) { return escaped(std::string(text)); }, py::arg("text"));
  module.def("daemon_socket", &loader::loader_socket_path);
  module.def(
      "daemon_listens",
      [](const std::string& socket) { return loader::Channel::connect(socket).has_value(); },
      py::arg("socket"));
  module.def("daemon_status", &status, py::arg("socket"));
  module.def("daemon_watch", &watch, py::arg("socket"), py::arg("job"));
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
