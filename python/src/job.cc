#include "job.h"

#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "batch.h"
#include "dataset.h"
#include "errors.h"
#include "gil.h"
#include "job_options.h"
#include "job_stats.h"
#include "loader/control/daemon_stream.h"
#include "loader/job/job.h"
#include "loader/plan/order_report.h"
#include "text.h"

namespace carya::python {
namespace {

namespace py = pybind11;
using loader::RecordError;

std::set<class PyJob*>& live_jobs() {
  static std::set<PyJob*> jobs;  // under the GIL
  return jobs;
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
    const transforms::OnError wanted = policy_from_name(policy);
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
      const MutexLock lock(retired_->mutex);
      retired_->open = false;
      ended.swap(retired_->leases);
    }
    const WithoutGil unlocked;
    job->close();
  }

  std::vector<shm::Lease> take_retired() {
    std::vector<shm::Lease> taken;
    if (!retired_ || getpid() != pid_) return taken;
    const MutexLock lock(retired_->mutex);
    taken.swap(retired_->leases);
    return taken;
  }

  py::dict stats() const;
  std::string explain(const PyPipeline& pipeline, const std::string& reorder) const;
  std::string placement() const;
  py::list quarantine() const;
  py::dict slot_files() const;
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
  for (const RecordError& failure : job_->quarantine()) entries.append(quarantine_entry(failure));
  return entries;
}

/// What another process needs to read a leased slot: descriptors, which the job owns, bytes and rows of each file, and name,
/// dtype, shape of a row and offset of each tensor.
py::dict PyJob::slot_files() const {
  py::dict files;
  files["descriptors"] = job_->slot_files();
  files["bytes"] = job_->layout().slot_bytes();
  files["rows"] = job_->layout().tensors().front().shape.front();
  py::list tensors;
  for (const BatchShape::Tensor& tensor : shape_->tensors)
    tensors.append(py::make_tuple(tensor.name, dtype_name(tensor.dtype),
                                  py::tuple(py::cast(tensor.row_shape)), tensor.offset));
  files["tensors"] = std::move(tensors);
  return files;
}

/// A job that a daemon makes; should that one be lost for good, one of this process.
std::unique_ptr<PyJob> make_daemon_job(const PyPipeline& pipeline, const PyDaemonOptions& daemon,
                                       const loader::JobOptions& options, bool defer_release) {
  loader::DaemonOptions asked = daemon.asked;
  loader::DatasetOptions dataset;
  py::list memory;
  if (!daemon.arrays.is_none()) dataset.arrays = array_memory(daemon.arrays, memory);
  dataset.listing.cache_dir = asked.cache_dir;
  asked.arrays = dataset.arrays;
  auto call = std::make_shared<ProgressCall>(daemon.progress);
  // The job outlives this call, and may be destroyed without the GIL.
  asked.progress = [weak = std::weak_ptr(call)](std::uint64_t seen) {
    const auto alive = weak.lock();
    return !alive || (*alive)(seen);
  };
  if (daemon.goes_on)
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

/// `dataset`: None with `daemon`, which opens it.
std::unique_ptr<PyJob> make_job(const PyPipeline& pipeline, const py::object& dataset,
                                const loader::JobOptions& options, const PyDaemonOptions* daemon,
                                bool defer_release) {
  if (daemon != nullptr) return make_daemon_job(pipeline, *daemon, options, defer_release);
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
      .def(py::init(&make_job), py::arg("pipeline"), py::arg("dataset"), py::arg("options"), py::kw_only(),
           py::arg("daemon") = py::none(), py::arg("defer_release") = false)
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
      .def("slot_files", &PyJob::slot_files)
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
