#include "job.h"

#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "batch.h"
#include "dataset.h"
#include "errors.h"
#include "job_stats.h"
#include "loader/control/daemon_stream.h"
#include "loader/job/job.h"
#include "loader/plan/order_report.h"
#include "progress_call.h"
#include "text.h"
#include "without_gil.h"

namespace carya::python {
namespace {

namespace py = pybind11;
using loader::Failure;

std::set<class PyJob*>& live_jobs() {
  static std::set<PyJob*> jobs;  // under the GIL
  return jobs;
}

transforms::OnError parse_policy(const std::string& text) {
  if (text == "raise") return transforms::OnError::kRaise;
  if (text == "replace") return transforms::OnError::kReplace;
  if (text == "mask") return transforms::OnError::kMask;
  raise(
      Error{Code::kInvalidArgument, "on_error: got \"" + text + "\"; give \"raise\", \"replace\", \"mask\""});
}

io::ReadEngineOptions::Kind parse_io_engine(const std::string& text) {
  if (text == "auto") return io::ReadEngineOptions::Kind::kAuto;
  if (text == "uring") return io::ReadEngineOptions::Kind::kUring;
  if (text == "pread") return io::ReadEngineOptions::Kind::kPread;
  raise(
      Error{Code::kInvalidArgument, "io_engine: got \"" + text + "\"; give \"auto\", \"uring\", \"pread\""});
}

std::optional<loader::RemoteOptions> parse_remote(const std::optional<py::dict>& given) {
  if (!given) return std::nullopt;
  const py::dict& from = *given;
  const auto [host, worker] = from["prices"].cast<std::pair<double, double>>();
  const auto text = [&](const char* name) {
    return from.contains(name) ? from[name].cast<std::string>() : std::string();
  };
  loader::RemoteOptions remote{.workers = from["workers"].cast<std::vector<std::string>>(),
                               .dns = text("dns"),
                               .fleet_command = from.contains("fleet_command")
                                                    ? from["fleet_command"].cast<std::vector<std::string>>()
                                                    : std::vector<std::string>(),
                               .fleet_options = from.contains("fleet_options") ? text("fleet_options") : "{}",
                               .certificate = text("certificate"),
                               .key = text("key"),
                               .authority = text("authority"),
                               .server_name = text("server_name"),
                               .insecure = from.contains("insecure") && from["insecure"].cast<bool>(),
                               .token = text("token"),
                               .prices = {.host_per_hour = host, .worker_per_hour = worker},
                               .goal = {.objective = autotune::Objective(from["objective"].cast<int>()),
                                        .target = from["target"].cast<double>(),
                                        .workers_max = from["workers_max"].cast<std::uint32_t>(),
                                        .workers_cost_per_hour_max = from["cost_max"].cast<double>()}};
  if (from.contains("verify")) remote.verify = from["verify"].cast<double>();
  if (from.contains("workers_fixed")) remote.workers_fixed = from["workers_fixed"].cast<std::uint32_t>();
  if (from.contains("cut_fixed")) remote.cut_fixed = from["cut_fixed"].cast<std::uint64_t>();
  return remote;
}

}  // namespace

loader::DecodeIndexOptions parse_decode_index(const std::string& text, const std::string& cache_dir) {
  loader::DecodeIndexOptions options{.wanted = text != "off", .cache_dir = cache_dir};
  if (text == "rows") options.spacing = 0;
  if (text == "8" || text == "16") options.spacing = std::stoi(text);
  if (options.wanted && !options.spacing && text != "auto")
    raise(Error{Code::kInvalidArgument,
                "decode_index: got \"" + text + "\"; give \"auto\", \"off\", \"rows\", 8, 16"});
  return options;
}

namespace {

py::dict to_dict(const Failure& failure) {
  py::dict entry;
  entry["record"] = failure.record;
  entry["path"] = path_text(failure.path);
  entry["member"] = path_text(failure.member);
  entry["offset"] = failure.offset;
  entry["stage"] = failure.stage;
  entry["reason"] = message_text(failure.reason);
  entry["epoch"] = failure.epoch;
  entry["position"] = failure.position;
  entry["substitute"] =
      failure.substitute < 0 ? py::object(py::none()) : py::object(py::int_(failure.substitute));
  return entry;
}

/// Set when the interpreter ends, before it closes the jobs.
std::atomic<bool> interpreter_ends{false};
/// Longer than what is left of the process then; bounded, since somebody may still join the thread.
constexpr std::chrono::seconds kEndWait{2};

/// A job of this process, with the Python objects whose memory it reads.
class PyJob {
 public:
  PyJob(std::shared_ptr<loader::Job> job, py::object dataset, bool defer_release)
      : job_(std::move(job)),
        shape_(std::make_shared<const BatchShape>(job_->layout())),
        dataset_(std::move(dataset)) {
    if (defer_release) retired_ = std::make_shared<RetiredLeases>();
    live_jobs().insert(this);
  }
  ~PyJob() {
    live_jobs().erase(this);
    close();
    const WithoutGil unlocked;
    job_.reset();
  }
  PyJob(const PyJob&) = delete;
  PyJob& operator=(const PyJob&) = delete;

  py::object next(double timeout_s) {
    Result<loader::Batch> batch = [&] {
      const WithoutGil unlocked;
      auto result = job_->next(static_cast<int>(std::clamp(timeout_s, 0.0, 86'400.0) * 1000));
      // A daemon thread at the end of the interpreter: an exception would only be printed by it.
      if (!result && result.error().code == Code::kClosed && interpreter_ends)
        std::this_thread::sleep_for(kEndWait);
      return result;
    }();
    if (batch) return py::cast(std::make_unique<PyBatch>(std::move(*batch), shape_, retired_));
    if (batch.error().code == Code::kTimeout) return py::none();
    if (const auto failure = job_->failure()) raise(*failure);
    raise(batch.error());
  }

  void seek(std::uint64_t epoch, std::uint64_t position) {
    unwrap([&] {
      const WithoutGil unlocked;
      return job_->seek(epoch, position);
    }());
  }

  void set_on_error(const std::string& policy) {
    const transforms::OnError wanted = parse_policy(policy);
    unwrap([&] {
      const WithoutGil unlocked;
      return job_->set_on_error(wanted);
    }());
  }

  void close() {
    if (getpid() != pid_) return;
    const auto job = job_;  // while the GIL is free another thread may drop this object
    if (retired_) {
      std::vector<shm::Lease> ended;
      const std::lock_guard lock(retired_->mutex);
      retired_->open = false;
      ended.swap(retired_->leases);
    }
    const WithoutGil unlocked;
    job->close();
  }

  std::vector<shm::Lease> take_retired() {
    std::vector<shm::Lease> taken;
    if (!retired_ || getpid() != pid_) return taken;
    const std::lock_guard lock(retired_->mutex);
    taken.swap(retired_->leases);
    return taken;
  }

  py::dict stats() const;
  std::string explain(const PyPipeline& pipeline, const std::string& reorder) const;
  std::string placement() const;
  py::list quarantine() const;
  const loader::Job& job() const { return *job_; }
  const loader::StreamShape& shape() const { return job_->shape(); }

 private:
  void check_not_forked() const {
    if (getpid() != pid_)
      raise(Error{
          Code::kForked,
          "loader: used in a forked child; make a Loader of its own there, or start processes with spawn",
          0});
  }

  const pid_t pid_ = getpid();
  std::shared_ptr<loader::Job> job_;
  std::shared_ptr<const BatchShape> shape_;
  std::shared_ptr<RetiredLeases> retired_;
  py::object dataset_;  // outlives the job's threads: close() waits for them
};

py::dict PyJob::stats() const {
  check_not_forked();
  const loader::JobStats stats = [&] {
    const WithoutGil unlocked;
    return job_->stats();
  }();
  py::dict all = stream_figures(stats);
  all["place"] = job_->place();
  all["reattached"] = job_->reattached();
  return all;
}

/// Why the ops run as they do, with what this stream measured.
std::string PyJob::explain(const PyPipeline& pipeline, const std::string& reorder) const {
  check_not_forked();
  const auto sense = unwrap(autotune::sense_from_name(reorder));
  return unwrap([&]() -> Result<std::string> {
    const WithoutGil unlocked;
    loader::JobStats stats = job_->stats();
    return loader::explain_order(*pipeline.pipeline,
                                 {.orders = std::move(stats.plan_profile), .rates = stats.rates},
                                 {.sense = sense, .running = std::move(stats.indices)});
  }());
}

std::string PyJob::placement() const {
  check_not_forked();
  const WithoutGil unlocked;
  return job_->stats().placement;
}

py::list PyJob::quarantine() const {
  check_not_forked();
  py::list entries;
  for (const Failure& failure : job_->quarantine()) entries.append(to_dict(failure));
  return entries;
}

/// A job that a daemon makes; should that one be lost for good, one of this process.
std::unique_ptr<PyJob> make_daemon_job(const PyPipeline& pipeline, const py::dict& daemon,
                                       const loader::JobOptions& options, bool defer_release) {
  loader::DaemonOptions asked;
  asked.socket = daemon["socket"].cast<std::string>();
  asked.job = daemon["job"].cast<std::string>();
  asked.replica = daemon["replica"].cast<std::uint32_t>();
  asked.replicas = daemon["replicas"].cast<std::uint32_t>();
  asked.cache_dir = daemon["cache_dir"].cast<std::string>();
  asked.reattach_timeout_s = daemon["reattach_timeout"].cast<double>();
  loader::DatasetOptions dataset;
  py::list memory;
  if (!daemon["arrays"].is_none()) dataset.arrays = array_memory(daemon["arrays"], memory);
  dataset.listing.cache_dir = asked.cache_dir;
  asked.arrays = dataset.arrays;
  auto call = std::make_shared<ProgressCall>(daemon["progress"]);
  // The job outlives this call, and may be destroyed without the GIL.
  asked.progress = [weak = std::weak_ptr(call)](std::uint64_t seen) {
    const auto alive = weak.lock();
    return !alive || (*alive)(seen);
  };
  if (daemon["embedded"].cast<bool>())
    asked.embedded = [native = pipeline.pipeline, dataset, options]() -> Result<loader::Attach> {
      ASSIGN(auto opened, loader::Dataset::open(*native, dataset));
      return loader::attach_embedded(native, std::move(opened), options);
    };
  auto job = [&] {
    const WithoutGil unlocked;
    return loader::Job::create(loader::attach_to_daemon(pipeline.pipeline, options, asked), options);
  }();
  call->rethrow();
  return std::make_unique<PyJob>(unwrap(std::move(job)), memory, defer_release);
}

std::unique_ptr<PyJob> make_job(
    const PyPipeline& pipeline, const py::object& dataset, std::uint64_t rank, std::uint64_t world_size,
    std::uint32_t threads, std::uint32_t slots, std::uint64_t read_ahead, const std::string& on_error,
    std::optional<std::uint64_t> seed, bool prefetch_epochs, std::optional<std::uint64_t> epochs,
    double io_timeout, const std::string& io_engine, std::uint64_t epoch, std::uint64_t position,
    bool defer_release, const std::string& label_dtype, const std::string& decode_index,
    const std::string& cache_dir, const std::string& reorder, const std::vector<std::size_t>& order,
    bool fuse, bool trains, const std::optional<py::dict>& remote, const std::optional<py::dict>& daemon) {
  const loader::JobOptions options{.rank = rank,
                                   .world_size = world_size,
                                   .epochs = epochs,
                                   .threads = threads,
                                   .slots = slots,
                                   .read_ahead_bytes = read_ahead,
                                   .on_error = parse_policy(on_error),
                                   .seed = seed,
                                   .prefetch_epochs = prefetch_epochs,
                                   .io_timeout_s = io_timeout,
                                   .io_engine = parse_io_engine(io_engine),
                                   .epoch = epoch,
                                   .position = position,
                                   .label_int32 = label_dtype == "int32",
                                   .decode_index = parse_decode_index(decode_index, cache_dir),
                                   .cache_dir = cache_dir,
                                   .reorder = unwrap(autotune::sense_from_name(reorder)),
                                   .order = order,
                                   .fuse = fuse,
                                   .trains = trains,
                                   .remote = parse_remote(remote)};
  if (daemon) return make_daemon_job(pipeline, *daemon, options, defer_release);
  const auto native = dataset.cast<const PyDataset&>().dataset;
  auto job = [&] {
    const WithoutGil unlocked;
    return loader::Job::create(pipeline.pipeline, native, options);
  }();
  return std::make_unique<PyJob>(unwrap(std::move(job)), dataset, defer_release);
}

}  // namespace

void bind_job(py::module_& module) {
  py::class_<PyJob>(module, "Job", py::is_final())
      .def(py::init(&make_job), py::arg("pipeline"), py::arg("dataset"), py::kw_only(), py::arg("rank") = 0,
           py::arg("world_size") = 1, py::arg("threads") = 0, py::arg("slots") = 0,
           py::arg("read_ahead") = 64 << 20, py::arg("on_error") = "raise", py::arg("seed") = py::none(),
           py::arg("prefetch_epochs") = true, py::arg("epochs") = py::none(), py::arg("io_timeout") = 10.0,
           py::arg("io_engine") = "auto", py::arg("epoch") = 0, py::arg("position") = 0,
           py::arg("defer_release") = false, py::arg("label_dtype") = "int64",
           py::arg("decode_index") = "off", py::arg("cache_dir") = "", py::arg("reorder") = "exact",
           py::arg("order") = std::vector<std::size_t>(), py::arg("fuse") = true, py::arg("trains") = true,
           py::arg("remote") = py::none(), py::arg("daemon") = py::none())
      .def_property_readonly("seed", [](const PyJob& self) { return self.job().seed(); })
      .def_property_readonly("global_size", [](const PyJob& self) { return self.shape().global_size; })
      .def_property_readonly("count", [](const PyJob& self) { return self.shape().records; })
      .def_property_readonly("dataset_fingerprint",
                             [](const PyJob& self) { return self.job().dataset().hex(); })
      .def_property_readonly("place", [](const PyJob& self) { return self.job().place(); })
      .def_property_readonly("io_engine", [](const PyJob& self) { return self.job().io_engine(); })
      .def_property_readonly("skipped",
                             [](const PyJob& self) {
                               const auto [count, examples] = self.job().skipped();
                               return py::make_tuple(count, path_list(examples));
                             })
      .def_property_readonly("reattached", [](const PyJob& self) { return self.job().reattached(); })
      .def_property_readonly("threads", [](const PyJob& self) { return self.job().threads(); })
      .def_property_readonly("slots", [](const PyJob& self) { return self.job().slots(); })
      .def(
          "steps_from",
          [](const PyJob& self, std::uint64_t position) { return self.shape().steps_from(position); },
          py::arg("position"))
      .def("seek", &PyJob::seek, py::arg("epoch"), py::arg("position"))
      .def("next", &PyJob::next, py::arg("timeout"))
      .def("set_on_error", &PyJob::set_on_error, py::arg("policy"))
      .def("stats", &PyJob::stats)
      .def("placement", &PyJob::placement)
      .def("explain", &PyJob::explain, py::arg("pipeline"), py::arg("reorder"))
      .def("quarantine", &PyJob::quarantine)
      .def("held", [](const PyJob& self) { return self.job().held(); })
      .def("take_retired", &PyJob::take_retired)
      .def("close", &PyJob::close);
  // Threads must be gone before the interpreter's memory is: a script may end without close().
  py::module_::import("atexit").attr("register")(py::cpp_function([] {
    interpreter_ends = true;
    while (!live_jobs().empty()) {  // anew each time: close() frees the GIL, and others may go meanwhile
      PyJob* const job = *live_jobs().begin();
      live_jobs().erase(job);
      job->close();
    }
  }));
}

}  // namespace carya::python
