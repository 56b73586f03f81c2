#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>

#include "batch.h"
#include "bpe.h"
#include "cache.h"
#include "daemon.h"
#include "dataset.h"
#include "errors.h"
#include "gil.h"
#include "job.h"
#include "job_options.h"
#include "loader/host/host.h"
#include "sampler.h"
#include "simulation.h"
#include "store.h"
#include "transforms/pipeline/codec_versions.h"
#include "transforms/plan/plan.h"
#include "transforms/simd/targets.h"
#include "transforms/user/library.h"

namespace carya::python {
namespace {

namespace py = pybind11;

/// What `carya doctor` prints: facts of this machine and this build; the judging is Python's.
py::dict doctor() {
  const loader::HostInfo facts = loader::read_host_info();
  py::dict all;
  all["version"] = CARYA_VERSION;
  all["compiler"] = CARYA_COMPILER;
  all["kernel"] = facts.kernel;
  all["online_cores"] = facts.online_cores;
  all["affinity_cores"] = facts.affinity_cores;
  all["quota_cores"] = facts.quota_cores;
  all["quota_source"] = facts.quota_source;
  all["allowed_cores"] = facts.allowed_cores;
  all["local_processes"] = facts.local_processes;
  all["local_processes_source"] = facts.local_processes_source;
  all["auto_threads"] = loader::auto_threads(facts);
  all["memory_bytes"] = facts.memory_bytes;
  all["memlock_bytes"] = facts.memlock_bytes;
  all["open_files_max"] = facts.open_files_max;
  all["thp_shmem"] = facts.thp_shmem;
  all["equal_weight_siblings"] = facts.equal_weight_siblings;
  const auto reader = io::ReadEngine::create({});
  all["io_engine"] = reader ? std::string((*reader)->name()) : reader.error().message;
  all["simd"] = simd_target();
  all["simd_targets"] = simd_targets();
  py::dict missing;
  for (const SimdTarget& target : compiled_simd_targets()) {
    if (!target.missing.empty()) missing[py::str(target.name)] = target.missing;
  }
  all["simd_missing"] = missing;
  all["codecs"] = transforms::codec_versions();
  return all;
}

/// Instruction sets by the SIMD target whose functions may use them.
std::map<std::string, std::vector<std::string>> simd_needs() {
  std::map<std::string, std::vector<std::string>> needs;
  for (const SimdTarget& target : compiled_simd_targets()) needs[target.name] = target.needs;
  return needs;
}

/// Libraries of a user's own operations. Processes of Python run the user's own code anyway.
void bind_own_ops(py::module_& module) {
  transforms::look_in_environment();
  module.def(
      "add_op",
      [](const std::string& path) {
        const auto library = unwrap([&] {
          const WithoutGil unlocked;
          return transforms::add_user_library(path);
        }());
        return py::make_tuple(library->name(), library->digest());
      },
      py::arg("path"));
}

}  // namespace
}  // namespace carya::python

PYBIND11_MODULE(_core, module) {
  using namespace carya::python;  // NOLINT(google-build-using-namespace): the macro opens a global function
  if (const auto checked = carya::check_simd_environment(); !checked) {
    throw pybind11::import_error(checked.error().message);
  }
  module.doc() = "The native side of carya; use the package, not this module.";
  module.attr("version") = CARYA_VERSION;
  module.attr("compiler") = CARYA_COMPILER;
  bind_errors(module);
  bind_batch(module);
  bind_bpe(module);
  bind_dataset(module);
  bind_job_options(module);
  bind_job(module);
  bind_sampler(module);
  bind_cache(module);
  bind_daemon(module);
  bind_simulation(module);
  bind_store(module);
  bind_own_ops(module);
  module.def("doctor", &doctor);
  module.def("use_own_jpeg", &carya::transforms::use_own_jpeg, pybind11::arg("wanted"));
  module.def("simd_targets", &carya::simd_targets);
  module.def("simd_target", &carya::simd_target);
  module.def("simd_needs", &simd_needs);
  module.def(
      "force_simd_target", [](const std::string& name) { unwrap(carya::force_simd_target(name)); },
      pybind11::arg("name"));
}
