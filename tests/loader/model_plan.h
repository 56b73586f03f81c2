#pragma once

#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "loader/data/dataset.h"
#include "loader/stream/chunk_inputs.h"
#include "tests/loader/short_memory.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

/// Bytes of a sample's "image" in the model's batches, and of what lies between the two stages of its plan.
inline constexpr std::size_t kModelImageBytes = 8;

/// The records of a model: what storage has of each, and what comes of it.
struct ModelRecords {
  std::shared_ptr<const Dataset> dataset;
  std::set<std::uint64_t> broken_first{}, broken_second{};  ///< by the plan's first stage, by its second
  std::set<std::uint64_t> changing{};  ///< whose files are not as they were listed, until they were seen so

  /// What the plan said of a sample, since it was cleared.
  struct Ran {
    std::uint64_t record, occurrence;
    std::optional<Code> failed;
  };
  std::vector<Ran> ran{};

  /// The bytes of a record, with the zeros behind it that a decoder may see.
  void fill(std::uint64_t source, std::byte* to, std::uint64_t length) const {
    std::memset(to, static_cast<int>(source % 251), length);
    std::memcpy(to, &source, std::min<std::uint64_t>(length, 8));
  }
  static std::uint64_t first_stage(std::uint64_t source, std::uint64_t epoch, std::uint64_t record,
                                   std::uint64_t occurrence) {
    const std::uint64_t words[] = {source, epoch, record, occurrence};
    return hash64(std::as_bytes(std::span(words)));
  }
  static std::uint64_t second_stage(std::uint64_t mid) { return mid * 0x9E3779B97F4A7C15 + 1; }
  std::uint64_t image(std::uint64_t epoch, std::uint64_t record, std::uint64_t occurrence) const {
    return second_stage(first_stage(dataset->source_index(record), epoch, record, occurrence));
  }
};

/// A plan of two stages that takes no time: a hash of the record, its bytes and the sample, then a hash of
/// that. The second one alone is what is left of it behind a cut.
class ModelPlan final : public transforms::Plan {
 public:
  ModelPlan(ModelRecords& records, const std::vector<transforms::SourceField>& fields, bool whole,
            std::uint64_t sample_ns)
      : records_(records), whole_(whole), sample_ns_(sample_ns) {
    const transforms::TensorSpec image{"image", DType::kUint8, {kModelImageBytes}};
    outputs_ = {image};
    if (fields.size() == 2) outputs_.push_back({"label", DType::kInt64, {}});
    inputs_ = fields;
    if (!whole) inputs_.front() = {transforms::SourceField::Kind::kTensor, image};
  }

  const std::vector<transforms::SourceField>& inputs() const override { return inputs_; }
  const std::vector<transforms::TensorSpec>& outputs() const override { return outputs_; }
  bool decodes_windows() const override { return false; }

  Status run(transforms::Scratch&, const transforms::SampleId& id,
             std::span<const std::span<const std::byte>> inputs, std::span<std::byte* const> outputs,
             std::span<transforms::FieldIndex>) const override {
    ++pending_;
    bool short_of_memory = false;
    try {
      delete new int;  // an op needs some
    } catch (const std::bad_alloc&) {
      short_of_memory = true;
    }
    const MemorySpared spared;
    records_.ran.push_back({id.record, id.occurrence, std::nullopt});
    const auto failed = [&](Code code) {
      records_.ran.back().failed = code;
      return fail(code, "model: a record that fails");
    };
    if (short_of_memory) return failed(Code::kExhausted);
    if (records_.changing.erase(id.record) > 0) return failed(Code::kIo);
    if ((whole_ && records_.broken_first.contains(id.record)) || records_.broken_second.contains(id.record))
      return failed(Code::kCorrupt);
    const std::uint64_t mid = whole_ ? first_stage(id, inputs[0]) : read_word(inputs[0].data());
    const std::uint64_t image = ModelRecords::second_stage(mid);
    std::memcpy(outputs[0], &image, sizeof image);
    if (outputs_.size() == 2) std::memcpy(outputs[1], inputs[1].data(), 8);
    return {};
  }
  Result<std::vector<transforms::OwnedTensor>> sample(
      const transforms::SampleId&, std::span<const std::span<const std::byte>>) const override {
    return fail(Code::kUnsupported, "model: none");
  }
  void collect_profile(transforms::Scratch&, std::vector<transforms::OpProfile>& total) const override {
    if (total.empty()) total.push_back({.name = "model"});
    total[0].samples += pending_;
    total[0].timed_samples += pending_;
    total[0].cpu_ns += pending_ * sample_ns_;
    pending_ = 0;
  }
  void collect_decodes(transforms::Scratch&, transforms::DecodePaths&) const override {}

  /// The model keeps no samples.
  Status pack(transforms::Scratch&, const transforms::SampleId&, std::span<const std::span<const std::byte>>,
              const PackRoom&, std::span<transforms::FieldIndex>) const override {
    return fail(Code::kUnsupported, "model: a sample was packed");
  }
  void unpack(std::span<const std::byte>, std::span<std::span<const std::byte>>) const override {
    CHECK(false);
  }

 private:
  static std::uint64_t read_word(const std::byte* from) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return word;
  }
  /// Of the bytes that lie there: of other bytes than the record's, another number.
  std::uint64_t first_stage(const transforms::SampleId& id, std::span<const std::byte> input) const {
    const bool encoded = inputs_[0].kind == transforms::SourceField::Kind::kEncoded;
    const std::uint64_t source = read_word(input.data());
    bool whole = input.size() > 8 ? input.back() == static_cast<std::byte>(source % 251) : true;
    for (std::size_t i = 0; encoded && i < kSlackBytes; ++i)
      whole = whole && input.data()[input.size() + i] == std::byte{0};
    return ModelRecords::first_stage(whole ? source : ~source, id.epoch, id.record, id.occurrence);
  }

  ModelRecords& records_;
  const bool whole_;
  const std::uint64_t sample_ns_;
  std::vector<transforms::SourceField> inputs_;
  std::vector<transforms::TensorSpec> outputs_;
  mutable std::uint64_t pending_ = 0;  // samples that were not collected
};

}  // namespace carya::loader
