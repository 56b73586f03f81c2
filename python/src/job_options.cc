#include "job_options.h"

#include <pybind11/stl.h>

#include <array>
#include <string_view>
#include <utility>

#include "errors.h"

namespace carya::python {
namespace {

namespace py = pybind11;
using loader::JobOptions;
using loader::RemoteOptions;

template <typename Enum, std::size_t count>
using Names = std::array<std::pair<std::string_view, Enum>, count>;

constexpr Names<transforms::OnError, 3> kPolicies{{{"raise", transforms::OnError::kRaise},
                                                   {"replace", transforms::OnError::kReplace},
                                                   {"mask", transforms::OnError::kMask}}};

using Engine = io::ReadEngineOptions::Kind;
constexpr Names<Engine, 3> kEngines{
    {{"auto", Engine::kAuto}, {"uring", Engine::kUring}, {"pread", Engine::kPread}}};

using CacheMode = loader::CacheOptions::Mode;
constexpr Names<CacheMode, 3> kCacheModes{
    {{"off", CacheMode::kOff}, {"auto", CacheMode::kAuto}, {"on", CacheMode::kOn}}};

using CacheForm = loader::CacheOptions::Form;
constexpr Names<CacheForm, 4> kCacheForms{{{"any", CacheForm::kAny},
                                           {"raw", CacheForm::kRaw},
                                           {"coefficients", CacheForm::kCoefficients},
                                           {"records", CacheForm::kRecords}}};

constexpr Names<bool, 2> kLabels{{{"int64", false}, {"int32", true}}};

constexpr Names<bool, 2> kLosses{{{"embedded", true}, {"raise", false}}};

/// MCUs between points; none: the finest within the budget.
constexpr Names<std::optional<int>, 4> kSpacings{{{"auto", std::nullopt}, {"rows", 0}, {"8", 8}, {"16", 16}}};

[[noreturn]] void refuse(const char* option, const std::string& got, std::string_view first,
                         const auto& names) {
  std::string message = std::string(option) + ": got \"" + got + "\"; give ";
  if (!first.empty()) message += "\"" + std::string(first) + "\", ";
  for (const auto& name : names)
    message += (&name == names.begin() ? "\"" : ", \"") + std::string(name.first) + "\"";
  raise(Error{Code::kInvalidArgument, message});
}

auto value_of(const char* option, const auto& names, const std::string& name) {
  for (const auto& [known, value] : names)
    if (known == name) return value;
  refuse(option, name, "", names);
}

std::string name_of(const auto& names, const auto& value) {
  for (const auto& [name, known] : names)
    if (known == value) return std::string(name);
  return "";
}

std::string decode_index_name(const loader::DecodeIndexOptions& options) {
  return options.wanted ? name_of(kSpacings, options.spacing) : "off";
}

/// An attribute whose value in Python is the name of an enumerator.
template <typename Class, typename Names, typename Value>
void def_named(py::class_<Class>& bound, const char* option, const Names& names, Value Class::* member) {
  bound.def_property(
      option, [&names, member](const Class& self) { return name_of(names, self.*member); },
      [&names, member, option](Class& self, const std::string& name) {
        self.*member = value_of(option, names, name);
      });
}

/// An attribute of a struct inside of the options.
template <typename Class, typename Part, typename Value>
void def_inside(py::class_<Class>& bound, const char* name, Part Class::* part, Value Part::* member) {
  bound.def_property(
      name, [part, member](const Class& self) { return self.*part.*member; },
      [part, member](Class& self, Value value) { self.*part.*member = std::move(value); });
}

/// A folder and its capacity, as a pair.
void def_cache_folder(py::class_<JobOptions>& bound, const char* name,
                      loader::CacheFolder loader::CacheOptions::* part) {
  using Pair = std::pair<std::string, std::uint64_t>;
  bound.def_property(
      name,
      [part](const JobOptions& self) { return Pair((self.cache.*part).path, (self.cache.*part).bytes); },
      [part](JobOptions& self, const Pair& given) { self.cache.*part = {given.first, given.second}; });
}

void add_job(py::module_& module) {
  py::class_<JobOptions> options(module, "JobOptions", py::is_final());
  options.def(py::init())
      .def_readwrite("rank", &JobOptions::rank)
      .def_readwrite("world_size", &JobOptions::world_size)
      .def_readwrite("epochs", &JobOptions::epochs)
      .def_readwrite("threads", &JobOptions::threads)
      .def_readwrite("slots", &JobOptions::slots)
      .def_readwrite("weight", &JobOptions::weight)
      .def_readwrite("node", &JobOptions::node)
      .def_readwrite("read_ahead", &JobOptions::read_ahead_bytes)
      .def_readwrite("seed", &JobOptions::seed)
      .def_readwrite("prefetch_epochs", &JobOptions::prefetch_epochs)
      .def_readwrite("io_timeout", &JobOptions::io_timeout_s)
      .def_readwrite("epoch", &JobOptions::epoch)
      .def_readwrite("position", &JobOptions::position)
      .def_readwrite("order", &JobOptions::order)
      .def_readwrite("fuse", &JobOptions::fuse)
      .def_readwrite("trains", &JobOptions::trains)
      .def_readwrite("remote", &JobOptions::remote)
      .def_property(
          "reorder", [](const JobOptions& self) { return autotune::sense_name(self.reorder); },
          [](JobOptions& self, const std::string& name) {
            self.reorder = unwrap(autotune::sense_from_name(name));
          })
      .def_property(
          "decode_index", [](const JobOptions& self) { return decode_index_name(self.decode_index); },
          [](JobOptions& self, const std::string& name) {
            self.decode_index = decode_index_from_name(name, self.cache_dir);
          })
      .def_property(
          "cache_dir", [](const JobOptions& self) { return self.cache_dir; },
          [](JobOptions& self, const std::string& folder) {
            self.cache_dir = self.decode_index.cache_dir = folder;
          });
  def_named(options, "on_error", kPolicies, &JobOptions::on_error);
  def_named(options, "io_engine", kEngines, &JobOptions::io_engine);
  def_named(options, "label_dtype", kLabels, &JobOptions::label_int32);
  options.def_property(
      "cache", [](const JobOptions& self) { return name_of(kCacheModes, self.cache.mode); },
      [](JobOptions& self, const std::string& name) {
        self.cache.mode = value_of("cache", kCacheModes, name);
      });
  options.def_property(
      "cache_form", [](const JobOptions& self) { return name_of(kCacheForms, self.cache.form); },
      [](JobOptions& self, const std::string& name) {
        self.cache.form = value_of("cache_form", kCacheForms, name);
      });
  options.def_readwrite("host_price", &JobOptions::host_per_hour);
  def_inside(options, "request_price", &JobOptions::store_prices,
             &loader::StorePricesGiven::per_1000_requests);
  def_inside(options, "gb_price", &JobOptions::store_prices, &loader::StorePricesGiven::per_gb);
  def_inside(options, "cache_bytes", &JobOptions::cache, &loader::CacheOptions::bytes);
  def_inside(options, "cache_share", &JobOptions::cache, &loader::CacheOptions::share);
  def_inside(options, "cache_after", &JobOptions::cache, &loader::CacheOptions::after);
  def_inside(options, "cache_write_budget", &JobOptions::cache, &loader::CacheOptions::write_bytes_per_day);
  def_cache_folder(options, "cache_disk", &loader::CacheOptions::disk);
  def_cache_folder(options, "cache_shared", &loader::CacheOptions::shared);
}

void add_remote(py::module_& module) {
  py::class_<RemoteOptions> options(module, "RemoteOptions", py::is_final());
  // A daemon has a bound for all jobs; a loader has the one that its user gives.
  options.def(py::init([] { return RemoteOptions{.goal = {.workers_max = autotune::kAnyWorkersMax}}; }))
      .def_readwrite("workers", &RemoteOptions::workers)
      .def_readwrite("dns", &RemoteOptions::dns)
      .def_readwrite("fleet_command", &RemoteOptions::fleet_command)
      .def_readwrite("fleet_options", &RemoteOptions::fleet_options)
      .def_readwrite("certificate", &RemoteOptions::certificate)
      .def_readwrite("key", &RemoteOptions::key)
      .def_readwrite("authority", &RemoteOptions::authority)
      .def_readwrite("server_name", &RemoteOptions::server_name)
      .def_readwrite("insecure", &RemoteOptions::insecure)
      .def_readwrite("token", &RemoteOptions::token)
      .def_readwrite("user", &RemoteOptions::user)
      .def_readwrite("verify", &RemoteOptions::verify)
      .def_readwrite("workers_fixed", &RemoteOptions::workers_fixed)
      .def_readwrite("cut_fixed", &RemoteOptions::cut_fixed)
      .def_property(
          "objective",
          [](const RemoteOptions& self) { return autotune::objective_name(self.goal.objective); },
          [](RemoteOptions& self, const std::string& name) {
            self.goal.objective = unwrap(autotune::objective_from_name(name));
          });
  def_inside(options, "host_price", &RemoteOptions::prices, &autotune::Prices::host_per_hour);
  def_inside(options, "worker_price", &RemoteOptions::prices, &autotune::Prices::worker_per_hour);
  def_inside(options, "target", &RemoteOptions::goal, &autotune::PlacementGoal::target);
  def_inside(options, "max_workers", &RemoteOptions::goal, &autotune::PlacementGoal::workers_max);
  def_inside(options, "max_cost_per_hour", &RemoteOptions::goal,
             &autotune::PlacementGoal::workers_cost_per_hour_max);
}

/// An attribute of what the daemon is asked for.
template <typename Value>
void def_asked(py::class_<PyDaemonOptions>& bound, const char* name, Value loader::DaemonOptions::* member) {
  bound.def_property(
      name, [member](const PyDaemonOptions& self) { return self.asked.*member; },
      [member](PyDaemonOptions& self, Value value) { self.asked.*member = std::move(value); });
}

void add_daemon(py::module_& module) {
  py::class_<PyDaemonOptions> options(module, "DaemonOptions", py::is_final());
  options.def(py::init())
      .def_readwrite("arrays", &PyDaemonOptions::arrays)
      .def_readwrite("progress", &PyDaemonOptions::progress);
  def_named(options, "on_loss", kLosses, &PyDaemonOptions::goes_on);
  def_asked(options, "socket", &loader::DaemonOptions::socket);
  def_asked(options, "job", &loader::DaemonOptions::job);
  def_asked(options, "replica", &loader::DaemonOptions::replica);
  def_asked(options, "replicas", &loader::DaemonOptions::replicas);
  def_asked(options, "share", &loader::DaemonOptions::share);
  def_asked(options, "share_jobs", &loader::DaemonOptions::share_jobs);
  def_asked(options, "cache_dir", &loader::DaemonOptions::cache_dir);
  def_asked(options, "reattach_timeout", &loader::DaemonOptions::reattach_timeout_s);
}

}  // namespace

transforms::OnError policy_from_name(const std::string& name) {
  return value_of("on_error", kPolicies, name);
}

loader::DecodeIndexOptions decode_index_from_name(const std::string& name, const std::string& cache_dir) {
  loader::DecodeIndexOptions options{.wanted = name != "off", .cache_dir = cache_dir};
  for (const auto& [known, spacing] : kSpacings)
    if (known == name) options.spacing = spacing;
  if (options.wanted && name_of(kSpacings, options.spacing) != name)
    refuse("decode_index", name, "off", kSpacings);
  return options;
}

void bind_job_options(py::module_& module) {
  add_remote(module);
  add_job(module);
  add_daemon(module);
}

}  // namespace carya::python
