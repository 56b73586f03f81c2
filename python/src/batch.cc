#include "batch.h"

#include <pybind11/stl.h>

#include "base/clock.h"
#include "dataset.h"
#include "dlpack.h"
#include "errors.h"
#include "loader/trace/trace.h"

namespace carya::python {
namespace {

namespace py = pybind11;

/// A DLManagedTensor with all it points to.
struct Exported {
  DLManagedTensor managed{};
  std::vector<std::int64_t> shape;
  std::shared_ptr<BatchMemory> memory;
};

DLDataType dl_type(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * dtype_bytes(dtype));
  switch (dtype) {
    case DType::kBool:
      return {6, 8, 1};
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return {0, bits, 1};
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return {2, bits, 1};
    case DType::kBfloat16:
      return {4, bits, 1};
    default:
      return {1, bits, 1};
  }
}

void delete_unconsumed(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;  // consumed: its taker calls the deleter
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

/// Without ml_dtypes a bfloat16 is two bytes: torch's loader has a type for them, the others ask for that package before.
py::dtype slot_dtype(DType dtype) {
  try {
    return numpy_dtype(dtype);
  } catch (const py::error_already_set&) {
    if (dtype != DType::kBfloat16) throw;
    return py::dtype("V2");
  }
}

void release_retired(shm::Lease& lease) {
  lease.release();
}

}  // namespace

BatchMemory::~BatchMemory() {
  if (taken_ns != 0 && loader::trace_on())
    loader::trace_note({.kind = loader::TraceKind::kHold,
                        .lane = lease.slot(),
                        .stream = stream,
                        .begin_ns = taken_ns,
                        .end_ns = monotonic_ns(),
                        .of = lease.sequence()});
  if (!retired || getpid() != retired->pid) return;
  const MutexLock lock(retired->mutex);
  if (retired->open) retired->leases.push_back(std::move(lease));
}

BatchShape::BatchShape(const shm::SlotLayout& layout) {
  for (const shm::SlotTensor& tensor : layout.tensors()) {
    Tensor known{tensor.name, tensor.dtype,  slot_dtype(tensor.dtype),
                 {},          tensor.offset, dtype_bytes(tensor.dtype)};
    for (std::size_t i = 1; i < tensor.shape.size(); ++i) {
      known.row_shape.push_back(static_cast<py::ssize_t>(tensor.shape[i]));
      known.row_bytes *= tensor.shape[i];
    }
    tensors.push_back(std::move(known));
  }
}

PyBatch::PyBatch(loader::Batch batch, std::shared_ptr<const BatchShape> shape,
                 std::shared_ptr<RetiredLeases> retired)
    : step(batch.step),
      epoch(batch.epoch),
      position(batch.position),
      rows(batch.rows),
      last(batch.last),
      shape_(std::move(shape)),
      memory_(std::make_shared<BatchMemory>(std::move(batch.lease), std::move(retired), batch.stream,
                                            batch.taken_ns)) {}

const BatchShape::Tensor& PyBatch::tensor(const std::string& name) const {
  for (std::size_t i = 0; i + 2 < shape_->tensors.size(); ++i)
    if (shape_->tensors[i].name == name) return shape_->tensors[i];
  throw py::key_error(name);
}

py::object PyBatch::array(const py::object& self, const BatchShape::Tensor& tensor) const {
  std::vector<py::ssize_t> shape{static_cast<py::ssize_t>(rows)};
  shape.insert(shape.end(), tensor.row_shape.begin(), tensor.row_shape.end());
  py::array array(tensor.numpy, std::move(shape), memory_->lease.data() + tensor.offset, self);
  if (memory_->lease.writable_data() == nullptr)
    py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return array;
}

py::object PyBatch::numpy(const py::object& self, const std::string& name) const {
  return array(self, tensor(name));
}
py::tuple PyBatch::arrays(const py::object& self) const {
  py::tuple all(shape_->tensors.size() - 2);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = array(self, shape_->tensors[i]);
  return all;
}
py::object PyBatch::records(const py::object& self) const {
  return array(self, shape_->tensors[shape_->tensors.size() - 2]);
}
py::object PyBatch::valid(const py::object& self) const {
  return array(self, shape_->tensors[shape_->tensors.size() - 1]);
}

py::object PyBatch::dlpack(const std::string& name) const {
  const BatchShape::Tensor& wanted = tensor(name);
  auto exported = std::make_unique<Exported>();
  exported->memory = memory_;
  exported->shape.push_back(static_cast<std::int64_t>(rows));
  exported->shape.insert(exported->shape.end(), wanted.row_shape.begin(), wanted.row_shape.end());
  DLTensor& view = exported->managed.dl_tensor;
  view.data = const_cast<std::byte*>(memory_->lease.data() + wanted.offset);
  view.device = {1, 0};
  view.ndim = static_cast<std::int32_t>(exported->shape.size());
  view.dtype = dl_type(wanted.dtype);
  view.shape = exported->shape.data();
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Exported*>(self->manager_ctx); };
  PyObject* capsule = PyCapsule_New(&exported->managed, "dltensor", delete_unconsumed);
  if (capsule == nullptr) throw py::error_already_set();
  static_cast<void>(exported.release());
  return py::reinterpret_steal<py::object>(capsule);
}

std::vector<std::string> PyBatch::names() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i + 2 < shape_->tensors.size(); ++i) names.push_back(shape_->tensors[i].name);
  return names;
}

void bind_batch(py::module_& module) {
  const auto of = [](const py::object& self) -> const PyBatch& { return self.cast<const PyBatch&>(); };
  py::class_<shm::Lease>(module, "Retired").def("release", &release_retired);
  py::class_<PyBatch>(module, "Batch")
      .def_readonly("step", &PyBatch::step)
      .def_readonly("epoch", &PyBatch::epoch)
      .def_readonly("position", &PyBatch::position)
      .def_readonly("rows", &PyBatch::rows)
      .def_readonly("last", &PyBatch::last)
      .def_property_readonly(
          "place", [](const PyBatch& self) { return py::make_tuple(self.step, self.epoch, self.position); })
      .def_property_readonly("records", [of](const py::object& self) { return of(self).records(self); })
      .def_property_readonly("valid", [of](const py::object& self) { return of(self).valid(self); })
      .def_property_readonly("slot", &PyBatch::slot)
      .def("names", &PyBatch::names)
      .def(
          "numpy",
          [of](const py::object& self, const std::string& name) { return of(self).numpy(self, name); },
          py::arg("name"))
      .def("arrays", [of](const py::object& self) { return of(self).arrays(self); })
      .def("dlpack", &PyBatch::dlpack, py::arg("name"));
}

}  // namespace carya::python
