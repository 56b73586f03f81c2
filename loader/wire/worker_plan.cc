#include "loader/wire/worker_plan.h"

#include <fmt/core.h>
#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/clock.h"
#include "transforms/pipeline/codec_versions.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The index entries that were sent for a row, as Plan::run() takes them. Empty if no entry was sent, so that
// Plan::run() builds none. The wanted spacing is the coarsest possible, so that every entry is fine enough.
std::span<transforms::FieldIndex> indexes_of(const RemoteInputs& work, std::size_t row,
                                             std::vector<transforms::FieldIndex>& indexes) {
  const auto entries = std::span(work.entries).subspan(row * indexes.size(), indexes.size());
  for (std::size_t f = 0; f < indexes.size(); ++f) indexes[f].known = entries[f];
  const bool any = std::ranges::any_of(entries, [](const auto& entry) { return !entry.empty(); });
  return any ? std::span(indexes) : std::span<transforms::FieldIndex>();
}

// The records of one row, read from where they lie.
class RowRecords {
 public:
  explicit RowRecords(const std::vector<transforms::SourceField>& fields)
      : fields_(fields), memory_(fields.size()), inputs_(fields.size()) {}

  // Puts what was read in the place of the addresses in `inputs`. Errors: an address that is none; inside:
  // a record that cannot be read.
  Result<Status> read(std::span<const std::span<const std::byte>>& inputs,
                      const WorkerPlan::ReadRecord& read) {
    std::ranges::copy(inputs, inputs_.begin());
    inputs = inputs_;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].kind != transforms::SourceField::Kind::kEncoded) continue;
      ASSIGN(const RemoteAddress address, parse_remote_address(inputs_[f]));
      const auto bytes = read(address, memory_[f]);
      if (!bytes) return Status(std::unexpected(bytes.error()));
      inputs_[f] = *bytes;
    }
    return Status();
  }

 private:
  const std::vector<transforms::SourceField>& fields_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::span<const std::byte>> inputs_;
};

}  // namespace

Result<std::shared_ptr<const WorkerPlan>> WorkerPlan::compile(const RemotePlan& plan,
                                                              const RowLimits& limits) {
  ASSIGN(auto pipeline, transforms::Pipeline::parse(plan.pipeline));
  const std::vector<std::size_t> order(plan.order.begin(), plan.order.end());
  // The policy for broken records is the host's, and so is none of a worker's fingerprint.
  if (pipeline->fingerprint(transforms::OnError::kRaise) != plan.fingerprint)
    return fail(Code::kUnsupported,
                "the worker's ops or codecs are of other versions than the host's and could give other bits; "
                "it has " +
                    joined(transforms::codec_versions()) + ": install the same release of carya on both");
  ASSIGN(auto compiled, transforms::Plan::compile(pipeline, {.seed = plan.seed,
                                                             .image_pixels_max = limits.pixels_max,
                                                             .sample_ns_max = limits.ns_max,
                                                             .order = order,
                                                             .last = plan.cut}));
  std::shared_ptr<WorkerPlan> made(new WorkerPlan());
  for (const transforms::TensorSpec& spec : compiled->outputs())
    made->row_bytes_ += static_cast<std::uint64_t>(spec.bytes());
  made->plan_ = std::move(compiled);
  return std::shared_ptr<const WorkerPlan>(std::move(made));
}

Result<std::uint64_t> WorkerPlan::result_bytes(const RemoteChunk& chunk) const {
  if (row_bytes_ > kRemoteBytesMax / chunk.rows)
    return fail(Code::kCorrupt,
                fmt::format("remote chunk: {} rows of {} bytes are more than one chunk may have ({})",
                            chunk.rows, row_bytes_, kRemoteBytesMax));
  return chunk.rows * row_bytes_;
}

Result<RemoteResult> WorkerPlan::compute(const RemoteChunk& chunk, std::span<const std::byte> payload,
                                         transforms::Scratch& scratch, std::span<std::byte> out,
                                         const std::function<bool()>& go_on, const ReadRecord& read) const {
  CHECK(out.size() == chunk.rows * row_bytes_);
  ASSIGN(const RemoteInputs work, parse_remote_inputs(chunk, plan_->inputs(), payload));
  if (chunk.addresses && !read) return fail(Code::kCorrupt, "remote chunk: addresses, where none are read");
  RowRecords records(plan_->inputs());
  std::vector<std::byte*> places;  // of the next row, tensor by tensor
  std::size_t at = 0;
  for (const transforms::TensorSpec& spec : outputs()) {
    places.push_back(out.data() + at);
    at += static_cast<std::size_t>(spec.bytes()) * chunk.rows;
  }
  std::vector<transforms::FieldIndex> indexes(fields());
  struct Asked {  // until this chunk is done
    Asked(transforms::Scratch& of, const std::function<bool()>& go_on) : scratch(of) {
      scratch.set_go_on(go_on);
    }
    ~Asked() { scratch.set_go_on({}); }
    transforms::Scratch& scratch;
  } const asked(scratch, go_on);
  RemoteResult result;
  const std::int64_t start_ns = monotonic_ns();
  for (std::size_t row = 0; row < chunk.rows; ++row) {
    if (go_on && !go_on())
      return fail(Code::kTimeout,
                  fmt::format("worker: the chunk took too long, or the worker ends; {} of {} rows were done",
                              row, chunk.rows));
    auto inputs = std::span<const std::span<const std::byte>>(work.inputs).subspan(row * fields(), fields());
    const transforms::SampleId id{chunk.epoch, work.rows[row].record, work.rows[row].occurrence};
    const std::span<transforms::FieldIndex> known = indexes_of(work, row, indexes);
    Status status;
    if (chunk.addresses) {
      ASSIGN(status, records.read(inputs, read));
      if (!status && result.unread.empty()) result.unread = status.error().message;
    }
    if (status) status = plan_->run(scratch, id, inputs, places, known);
    if (!status && status.error().code == Code::kExhausted && result.unread.empty())
      return std::unexpected(status.error());
    if (!status && status.error().code == Code::kTimeout && go_on && !go_on())
      return fail(
          Code::kTimeout,
          fmt::format("worker: the chunk took too long, or the worker ends, in the middle of row {} of {}",
                      row, chunk.rows));
    if (!status) result.broken.push_back(row);
    for (std::size_t t = 0; t < places.size(); ++t) {
      const auto bytes = static_cast<std::size_t>(outputs()[t].bytes());
      if (!status) std::fill_n(places[t], bytes, std::byte{0});
      places[t] += bytes;
    }
  }
  result.thread_ns = static_cast<std::uint64_t>(monotonic_ns() - start_ns);
  return result;
}

}  // namespace carya::loader
