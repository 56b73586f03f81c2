#include "loader/stream/parallelism.h"

#include <new>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace carya::loader {

Parallelism::Parallelism(std::uint32_t threads, bool has_workers)
    : has_workers_(has_workers), threads_(threads), cores_(threads), scratches_(threads) {}

void Parallelism::set_threads(std::uint32_t threads) {
  // Room also for those that are out, so that give_scratch() needs no memory.
  scratches_.reserve(std::max(threads, threads_) + scratches_out_);
  if (scratches_.size() + scratches_out_ < threads) scratches_.resize(threads - scratches_out_);
  threads_ = threads;
  cores_.set_cores(threads);
}

ComputeScratch Parallelism::take_scratch() {
  CHECK(!scratches_.empty());
  ComputeScratch scratch = std::move(scratches_.back());
  scratches_.pop_back();
  ++scratches_out_;
  return scratch;
}

void Parallelism::give_scratch(ComputeScratch scratch) {
  CHECK(scratches_out_ > 0);
  --scratches_out_;
  scratches_.push_back(std::move(scratch));
}

void Parallelism::note_made(std::uint64_t rows, const ThreadTime& took, bool is_rest) {
  (is_rest ? stats_.rest_samples : stats_.local_samples) += rows;
  (is_rest ? stats_.rest_ns : stats_.local_ns) += took.ns;
  stats_.cpu_ns += took.cpu_ns;
  totals_.made_samples += static_cast<double>(rows);
  totals_.thread_s += static_cast<double>(took.ns) * 1e-9;
}

void Parallelism::note_taken(std::uint64_t samples, std::uint64_t waited_ns) {
  totals_.taken_samples += static_cast<double>(samples);
  totals_.waited_s = static_cast<double>(waited_ns) * 1e-9;
  taken_at_ns_ = monotonic_ns();
  try {
    cores_.observe(totals_, static_cast<double>(taken_at_ns_) * 1e-9);
  } catch (const std::bad_alloc&) {  // then the number of cores stays as it was
  }
}

}  // namespace carya::loader
