#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "loader/job/job.h"

namespace carya::python {

/// Leases whose last view is gone, of a loader whose device may still copy from them; the loader gives them
/// back when its events have completed. Threads: thread-safe, without the GIL.
struct RetiredLeases {
  Mutex mutex;
  std::vector<shm::Lease> leases GUARDED_BY(mutex);
  const pid_t pid = getpid();          ///< in a forked child the lock may be held for ever
  bool open GUARDED_BY(mutex) = true;  ///< false: the loader is closed, leases end at once
};

/// What every array, tensor and capsule of a batch keeps alive: its lease.
struct BatchMemory {
  shm::Lease lease;
  std::shared_ptr<RetiredLeases> retired;  ///< null: the lease ends with the last view
  std::uint64_t stream = 0;                ///< loader::Batch
  std::int64_t taken_ns = 0;               ///< loader::Batch
  ~BatchMemory();
};

/// What all batches of a job share: names, dtypes and shapes of the tensors of a slot.
struct BatchShape {
  struct Tensor {
    std::string name;
    DType dtype;
    pybind11::dtype numpy;
    std::vector<pybind11::ssize_t> row_shape;
    std::uint64_t offset;
    std::uint64_t row_bytes;
  };
  std::vector<Tensor> tensors;  ///< the user's; then records, then valid
  explicit BatchShape(const shm::SlotLayout& layout);
};

/// One batch in Python's hands: views into a leased slot. `self` is this batch as Python knows it: it is the
/// base of every array, so that an array keeps the lease.
class PyBatch {
 public:
  PyBatch(loader::Batch batch, std::shared_ptr<const BatchShape> shape,
          std::shared_ptr<RetiredLeases> retired);

  /// (rows, ...) array over the slot's memory.
  pybind11::object numpy(const pybind11::object& self, const std::string& name) const;
  /// The same of all the user's tensors, in order.
  pybind11::tuple arrays(const pybind11::object& self) const;
  pybind11::object records(const pybind11::object& self) const;
  pybind11::object valid(const pybind11::object& self) const;
  /// An unversioned DLPack capsule of the same memory (CPU, row-major).
  pybind11::object dlpack(const std::string& name) const;
  std::vector<std::string> names() const;
  std::uint32_t slot() const { return memory_->lease.slot(); }

  std::uint64_t step, epoch, position, rows;
  bool last;

 private:
  const BatchShape::Tensor& tensor(const std::string& name) const;
  pybind11::object array(const pybind11::object& self, const BatchShape::Tensor& tensor) const;

  std::shared_ptr<const BatchShape> shape_;
  std::shared_ptr<BatchMemory> memory_;
};

void bind_batch(pybind11::module_& module);

}  // namespace carya::python
