#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "loader/wire/chunk_message.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

/// What one row may take.
struct RowLimits {
  /// Of each picture that it is or becomes.
  std::uint64_t pixels_max = transforms::PlanOptions{}.image_pixels_max;
  /// As PlanOptions::sample_ns_max.
  std::uint64_t ns_max = UINT64_MAX;
};

/// A host's plan as a worker runs it. Immutable. Threads: const is thread-safe, with one Scratch per thread.
class WorkerPlan {
 public:
  /// Errors: kInvalidArgument (no valid pipeline or order; a cut where no part may end), kUnsupported (ops or codecs
  /// of another version than the host's; the message names both). A row is broken, and left to the host, when its
  /// image has or gets more than `limits.pixels_max` pixels, or its operations are sure to take more than
  /// `limits.ns_max`.
  static Result<std::shared_ptr<const WorkerPlan>> compile(const RemotePlan& plan,
                                                           const RowLimits& limits = {});

  /// The number of inputs of one row, and the tensors that it becomes.
  std::size_t fields() const { return plan_->inputs().size(); }
  const std::vector<transforms::TensorSpec>& outputs() const { return plan_->outputs(); }
  /// Whether decode index entries make the plan faster.
  bool wants_entries() const { return plan_->decodes_windows(); }
  /// The size of a chunk's result. Errors: kCorrupt (more than kRemoteBytesMax).
  Result<std::uint64_t> result_bytes(const RemoteChunk& chunk) const;

  /// Reads the record at an address into memory that grows; as RecordFiles::read().
  using ReadRecord =
      std::function<Result<std::span<const std::byte>>(const RemoteAddress&, std::vector<std::byte>&)>;

  /// Compute the chunk's rows into `out`, of result_bytes(), as RemoteResult says. Calls `go_on` before each row, between
  /// its operations and inside of long ones (Scratch::set_go_on()), and `read` for each record that is an address; a
  /// record that it cannot read makes its row broken. Errors: kCorrupt (the payload does not fit the plan, or has an
  /// address and there is no `read`), kTimeout (`go_on` returned false), kExhausted.
  Result<RemoteResult> compute(const RemoteChunk& chunk, std::span<const std::byte> payload,
                               transforms::Scratch& scratch, std::span<std::byte> out,
                               const std::function<bool()>& go_on = {}, const ReadRecord& read = {}) const;

 private:
  WorkerPlan() = default;

  std::shared_ptr<const transforms::Plan> plan_;
  std::uint64_t row_bytes_ = 0;
};

}  // namespace carya::loader
