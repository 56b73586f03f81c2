#include "dataset.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <fmt/core.h>
#include <optional>

#include "errors.h"
#include "gil.h"
#include "loader/data/sample.h"
#include "loader/plan/frozen_plan.h"
#include "loader/plan/order_report.h"
#include "text.h"
#include "transforms/plan/plan.h"

namespace carya::python {
namespace {

namespace py = pybind11;
using transforms::TensorSpec;

py::tuple to_tuple(const TensorSpec& spec) {
  py::tuple shape(spec.shape.size());
  for (std::size_t i = 0; i < spec.shape.size(); ++i)
    shape[i] = spec.shape[i] < 0 ? py::object(py::none()) : py::object(py::int_(spec.shape[i]));
  return py::make_tuple(spec.name, std::string(dtype_name(spec.dtype)), shape);
}

py::list to_list(const std::vector<TensorSpec>& specs) {
  py::list list;
  for (const TensorSpec& spec : specs) list.append(to_tuple(spec));
  return list;
}

PyPipeline parse_pipeline(const std::string& text) {
  return {unwrap(transforms::Pipeline::parse(text))};
}

py::list pipeline_lines(const PyPipeline& self) {
  py::list lines;
  for (const transforms::PipelineLine& line : self.pipeline->lines())
    lines.append(py::make_tuple(line.text, to_list(line.tensors)));
  return lines;
}

PyDataset open_dataset(const PyPipeline& pipeline, const std::optional<py::dict>& arrays,
                       const std::string& cache_dir, bool verify, std::uint32_t threads,
                       py::object progress) {
  loader::DatasetOptions options;
  PyDataset opened;
  if (arrays) options.arrays = array_memory(*arrays, opened.arrays);
  auto call = std::make_shared<ProgressCall>(std::move(progress));
  options.listing = {
      .cache_dir = cache_dir, .threads = threads, .verify = verify, .progress = [call](std::uint64_t seen) {
        return (*call)(seen);
      }};
  auto dataset = [&] {
    const WithoutGil unlocked;
    return loader::Dataset::open(*pipeline.pipeline, options);
  }();
  call->rethrow();
  opened.dataset = unwrap(std::move(dataset));
  return opened;
}

py::dict address(const PyDataset& self, std::uint64_t index) {
  if (index >= self.dataset->count())
    throw py::index_error(fmt::format("record {} of {}", index, self.dataset->count()));
  const io::RecordAddress found = self.dataset->address(index);
  py::dict entry;
  entry["record"] = index;
  entry["path"] = path_text(self.dataset->path(index));
  entry["member"] = path_text(std::string(found.member));
  entry["offset"] = found.offset;
  entry["bytes"] = found.bytes;
  entry["label"] = self.dataset->label(index);
  return entry;
}

std::optional<py::array_t<std::int64_t>> labels(const PyDataset& self) {
  if (!self.dataset->has_labels()) return std::nullopt;
  py::array_t<std::int64_t> found(static_cast<py::ssize_t>(self.dataset->count()));
  std::int64_t* const into = found.mutable_data();
  const WithoutGil unlocked;
  for (std::uint64_t i = 0; i < self.dataset->count(); ++i) into[i] = self.dataset->label(i);
  return found;
}

py::dict compute_sample(const PyPipeline& pipeline, const PyDataset& dataset, std::uint64_t index,
                        std::uint64_t epoch, std::optional<std::uint64_t> seed,
                        const std::vector<std::size_t>& order) {
  auto computed = [&]() -> Result<std::vector<transforms::OwnedTensor>> {
    const WithoutGil unlocked;
    ASSIGN(const auto plan,
           transforms::Plan::compile(pipeline.pipeline,
                                     {.seed = seed.value_or(pipeline.pipeline->seed()), .order = order}));
    return loader::compute_sample(*plan, *dataset.dataset, index, epoch);
  }();
  if (!computed && computed.error().code == Code::kCorrupt)
    raise(loader::make_failure(*dataset.dataset, computed.error(), epoch, 0, index));
  auto tensors = unwrap(std::move(computed));
  py::dict sample;
  for (transforms::OwnedTensor& tensor : tensors) {
    py::array array(numpy_dtype(tensor.spec.dtype),
                    std::vector<py::ssize_t>(tensor.spec.shape.begin(), tensor.spec.shape.end()));
    std::copy(tensor.data.begin(), tensor.data.end(), static_cast<std::byte*>(array.mutable_data()));
    sample[py::str(tensor.spec.name)] = array;
  }
  return sample;
}

}  // namespace

py::dtype numpy_dtype(DType dtype) {
  const std::string name(dtype_name(dtype));
  if (dtype != DType::kBfloat16) return py::dtype(name);
  return py::module_::import("carya._dtypes").attr("numpy_dtype")(name);
}

std::map<std::string, loader::ArrayMemory> array_memory(const py::dict& arrays, py::list& memory) {
  std::map<std::string, loader::ArrayMemory> found;
  for (const auto& [name, value] : arrays) {
    const auto array = py::cast<py::array>(value);
    const auto key = py::cast<std::string>(name);
    if (array.ndim() < 1 || (array.flags() & py::array::c_style) == 0)
      raise(Error{Code::kInvalidArgument,
                  "arrays: " + key +
                      " must be C-contiguous with at least one dimension; pass numpy.ascontiguousarray(it)"});
    const auto rows = static_cast<std::uint64_t>(array.shape(0));
    const auto bytes = static_cast<std::uint64_t>(array.nbytes());
    const std::span memory_of(static_cast<const std::byte*>(array.data()), bytes);
    found[key] = {memory_of.data(), rows == 0 ? 0 : bytes / rows, rows, loader::MappedFile::find(memory_of)};
    memory.append(array);
  }
  return found;
}

void bind_dataset(py::module_& module) {
  py::class_<PyPipeline>(module, "Pipeline")
      .def_static("parse", &parse_pipeline, py::arg("text"))
      .def("to_json", [](const PyPipeline& self) { return self.pipeline->to_json(); })
      .def("lines", &pipeline_lines)
      .def(
          "explain",
          [](const PyPipeline& self, const std::string& cache_dir, const std::vector<std::size_t>& running,
             const std::string& reorder) {
            const auto sense = unwrap(autotune::sense_from_name(reorder));
            return unwrap(
                loader::explain_kept(*self.pipeline, cache_dir, {.sense = sense, .running = running}));
          },
          py::arg("cache_dir"), py::arg("running") = std::vector<std::size_t>{}, py::arg("reorder") = "exact")
      .def(
          "fixed_order",
          [](const PyPipeline& self, const std::string& reorder) {
            return loader::fixed_order(*self.pipeline, unwrap(autotune::sense_from_name(reorder)));
          },
          py::arg("reorder"))
      .def(
          "check_order",
          [](const PyPipeline& self, const std::vector<std::size_t>& order, const std::string& reorder) {
            unwrap(loader::check_frozen_order(*self.pipeline, order,
                                              unwrap(autotune::sense_from_name(reorder))));
          },
          py::arg("order"), py::arg("reorder"))
      .def("passes_pixelwise",
           [](const PyPipeline& self) {
             std::vector<std::string> senses;
             for (const auto& op : self.pipeline->ops())
               senses.emplace_back(transforms::commutes_name(transforms::commutes_with_pixelwise(*op)));
             return senses;
           })
      .def("draws",
           [](const PyPipeline& self) {
             const auto random = [](const auto& recur, const transforms::Op& op) -> bool {
               return op.traits().random || std::ranges::any_of(op.inner(), [&](const auto& inner) {
                        return recur(recur, *inner);
                      });
             };
             std::vector<bool> found;
             for (const auto& op : self.pipeline->ops()) found.push_back(random(random, *op));
             return found;
           })
      .def("op_labels", [](const PyPipeline& self) { return transforms::op_labels(self.pipeline->ops()); })
      .def(
          "freeze_plan",
          [](const PyPipeline& self, const std::string& reorder, const std::vector<std::size_t>& order) {
            const auto sense = unwrap(autotune::sense_from_name(reorder));
            return unwrap(loader::freeze_plan(*self.pipeline, {.sense = sense, .order = order}));
          },
          py::kw_only(), py::arg("reorder"), py::arg("order"))
      .def(
          "read_plan",
          [](const PyPipeline& self, const std::string& text) {
            const loader::FrozenPlan plan = unwrap(loader::read_plan(*self.pipeline, text));
            return py::make_tuple(std::string(autotune::sense_name(plan.sense)), plan.order);
          },
          py::arg("text"))
      .def("outputs", [](const PyPipeline& self) { return to_list(self.pipeline->outputs()); })
      .def(
          "fingerprint",
          [](const PyPipeline& self, const std::string& on_error, const std::vector<std::size_t>& order) {
            const auto policy = on_error == "replace" ? transforms::OnError::kReplace
                                : on_error == "mask"  ? transforms::OnError::kMask
                                                      : transforms::OnError::kRaise;
            return self.pipeline->fingerprint(policy, order).hex();
          },
          py::arg("on_error"), py::arg("order") = std::vector<std::size_t>{});
  py::class_<PyDataset>(module, "Dataset")
      .def_static("open", &open_dataset, py::arg("pipeline"), py::kw_only(), py::arg("arrays") = py::none(),
                  py::arg("cache_dir") = "", py::arg("verify") = false, py::arg("threads") = 0,
                  py::arg("progress") = py::none())
      .def_property_readonly("count", [](const PyDataset& self) { return self.dataset->count(); })
      .def_property_readonly("fingerprint",
                             [](const PyDataset& self) { return self.dataset->fingerprint().hex(); })
      .def_property_readonly("class_names",
                             [](const PyDataset& self) { return path_list(self.dataset->class_names()); })
      .def_property_readonly("skipped_count",
                             [](const PyDataset& self) { return self.dataset->report().skipped_count; })
      .def_property_readonly(
          "skipped_examples",
          [](const PyDataset& self) { return path_list(self.dataset->report().skipped_examples); })
      .def_property_readonly("from_cache",
                             [](const PyDataset& self) { return self.dataset->report().from_cache; })
      .def(
          "choose",
          [](const PyDataset& self, const PyPipeline& pipeline, const std::optional<py::dict>& arrays) {
            loader::DatasetOptions options;
            py::list numbers;
            if (arrays) options.arrays = array_memory(*arrays, numbers);
            return PyDataset{unwrap(self.dataset->choose(*pipeline.pipeline, options)), self.arrays};
          },
          py::arg("pipeline"), py::arg("arrays") = py::none())
      .def_property_readonly("kept_count", [](const PyDataset& self) { return self.dataset->kept_count(); })
      .def_property_readonly("labels", &labels)
      .def("address", &address, py::arg("index"))
      .def(
          "source_index",
          [](const PyDataset& self, std::uint64_t index) {
            if (index >= self.dataset->count()) throw py::index_error("record " + std::to_string(index));
            return self.dataset->source_index(index);
          },
          py::arg("index"));
  module.def("sample", &compute_sample, py::arg("pipeline"), py::arg("dataset"), py::arg("index"),
             py::arg("epoch"), py::arg("seed"), py::arg("order") = std::vector<std::size_t>{});
}

}  // namespace carya::python
