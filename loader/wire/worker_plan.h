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

/// A host's plan as a worker runs it. Immutable. Threads: const is thread-safe, with one Scratch per thread.
class WorkerPlan {
 public:
  /// Errors: kInvalidArgument (a pipeline or an order that is none; a cut where no part may end);
  /// kUnsupported: built-in ops or codecs of another version than the host's, with both versions.
  /// `pixels_max`: a picture that has or gets more makes its row broken, which leaves it to the host.
  static Result<std::shared_ptr<const WorkerPlan>> compile(
      const RemotePlan& plan, std::uint64_t pixels_max = transforms::PlanOptions{}.image_pixels_max);

  /// Of one row's inputs, and what becomes of them.
  std::size_t fields() const { return plan_->inputs().size(); }
  const std::vector<transforms::TensorSpec>& outputs() const { return plan_->outputs(); }
  /// Whether decode index entries save it time.
  bool wants_entries() const { return plan_->decodes_windows(); }
  /// Of what a chunk becomes. Errors: kCorrupt: more than kRemoteBytesMax.
  Result<std::uint64_t> result_bytes(const RemoteChunk& chunk) const;

  /// Reads the record at an address into memory that grows; as RecordFiles::read().
  using ReadRecord =
      std::function<Result<std::span<const std::byte>>(const RemoteAddress&, std::vector<std::byte>&)>;

  /// Compute the chunk's rows into `out` (result_bytes() of it), as RemoteResult says. `go_on` is asked
  /// before each row, `read` for records that are addresses; one that it cannot read makes its row broken.
  /// Errors: kCorrupt: the payload is not what the plan takes, or an address where nothing reads any;
  /// kTimeout: not to go on; kExhausted.
  Result<RemoteResult> compute(const RemoteChunk& chunk, std::span<const std::byte> payload,
                               transforms::Scratch& scratch, std::span<std::byte> out,
                               const std::function<bool()>& go_on = {}, const ReadRecord& read = {}) const;

 private:
  WorkerPlan() = default;

  std::shared_ptr<const transforms::Plan> plan_;
  std::uint64_t row_bytes_ = 0;
};

}  // namespace carya::loader
