#include "transforms/plan/source_parts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "transforms/plan/packing.h"
#include "transforms/plan/scratch.h"

namespace carya::transforms {
namespace {

using Inputs = std::span<const std::span<const std::byte>>;
using Outputs = std::span<std::byte* const>;
using Bytes = std::span<const std::byte>;

/// What stands before a field of no fixed size.
struct FieldHead {
  std::uint64_t packed = 0;  // 1: the bytes are packed coefficients
  std::uint64_t bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t none = 0;
};
static_assert(sizeof(FieldHead) == 32);

/// Decoders may look at bytes behind a file, which are the same each time.
constexpr std::uint64_t kSlackBytes = 64;
/// MCUs between two points of an index that is made where the caller keeps none.
constexpr int kSpacing = 8;

/// A field of a packed record.
struct KeptField {
  Bytes bytes{}, index{};
  bool packed = false;
};

bool is_fixed(const SourceField& field) {
  return field.kind != SourceField::Kind::kEncoded && field.spec.bytes() >= 0;
}

std::uint64_t room_of(const SourceField& field, const KeptField& kept) {
  if (is_fixed(field)) return kept.bytes.size();
  return sizeof(FieldHead) + kept.bytes.size() + (kept.packed ? 0 : kSlackBytes) + kept.index.size();
}

void write_field(const SourceField& field, const KeptField& kept, std::byte* at) {
  if (!is_fixed(field)) {
    const FieldHead head{.packed = kept.packed, .bytes = kept.bytes.size(), .index_bytes = kept.index.size()};
    std::memcpy(at, &head, sizeof head);
    at += sizeof head;
  }
  if (!kept.bytes.empty()) std::memcpy(at, kept.bytes.data(), kept.bytes.size());
  if (is_fixed(field)) return;
  at += kept.bytes.size();
  if (!kept.packed) {
    std::memset(at, 0, kSlackBytes);
    at += kSlackBytes;
  }
  if (!kept.index.empty()) std::memcpy(at, kept.index.data(), kept.index.size());
}

/// Read the field that `from` begins with. Returns its length; none: there is no such field.
std::optional<std::uint64_t> read_field(const SourceField& field, bool may_be_packed, Bytes from,
                                        KeptField& kept) {
  kept = {};
  std::uint64_t left = from.size();
  if (is_fixed(field)) {
    const auto bytes = static_cast<std::uint64_t>(field.spec.bytes());
    if (bytes > left) return std::nullopt;
    kept.bytes = from.first(bytes);
    return bytes;
  }
  FieldHead head;
  if (left < sizeof head) return std::nullopt;
  std::memcpy(&head, from.data(), sizeof head);
  left -= sizeof head;
  if (head.packed > (may_be_packed ? 1 : 0) || head.none != 0 || head.bytes > left) return std::nullopt;
  left -= head.bytes;
  const std::uint64_t slack = head.packed != 0 ? 0 : kSlackBytes;
  if (slack > left || head.index_bytes > left - slack) return std::nullopt;
  kept.packed = head.packed != 0;
  kept.bytes = from.subspan(sizeof head, head.bytes);
  kept.index = from.subspan(sizeof head + head.bytes + slack, head.index_bytes);
  return sizeof head + head.bytes + slack + head.index_bytes;
}

/// What both parts know of the fields.
struct Fields {
  std::vector<SourceField> all;
  std::vector<bool> packed;  // whether coefficients may stand for them
};

/// Read the fields of a packed record. Returns whether all are there, with nothing behind them; fields that are not are
/// left alone.
template <typename Take>
bool read_fields(const Fields& fields, Bytes packed, const Take& take) {
  std::uint64_t at = 0, end = 0;
  bool whole = true;
  for (std::size_t f = 0; f < fields.all.size(); ++f) {
    KeptField kept;
    const Bytes rest = packed.subspan(std::min<std::uint64_t>(at, packed.size()));
    const auto length = read_field(fields.all[f], fields.packed[f], rest, kept);
    if (!length || at > packed.size()) {
      whole = false;
      continue;
    }
    take(f, rest.first(*length), kept);
    end = at + *length;
    at = align_up(end, std::uint64_t{kPackAlign});
  }
  return whole && (packed.size() == end || packed.size() == at);
}

class BeforeSource final : public Plan {
 public:
  BeforeSource(Fields fields, const ImageLimits& limits) : fields_(std::move(fields)), limits_(limits) {}

  const std::vector<SourceField>& inputs() const override { return fields_.all; }
  const std::vector<TensorSpec>& outputs() const override { return no_outputs_; }
  bool decodes_windows() const override { return false; }

  Status pack(Scratch& scratch, const SampleId&, Inputs inputs, const PackRoom& room,
              std::span<FieldIndex> indexes) const override {
    CHECK(inputs.size() == fields_.all.size());
    CHECK(indexes.empty() || indexes.size() == inputs.size());
    for (FieldIndex& index : indexes) {  // as every run does: nothing is learned here, and nothing was used
      index.made.clear();
      index.use = IndexUse::kNone;
      index.damaged = false;
    }
    std::unique_ptr<Scratch::Impl::SourceKeeper>& keeper = scratch.impl().keeper;
    if (!keeper) keeper = std::make_unique<Scratch::Impl::SourceKeeper>();
    if (keeper->made.size() < inputs.size()) keeper->made.resize(inputs.size());
    std::array<KeptField, kFieldsMax> kept;
    std::array<std::uint64_t, kFieldsMax> offsets{};
    std::uint64_t end = 0;
    for (std::size_t f = 0; f < inputs.size(); ++f) {
      kept[f].bytes = inputs[f];
      if (fields_.packed[f])
        TRY(shorten(*keeper, keeper->made[f], indexes.empty() ? nullptr : &indexes[f], kept[f]));
      offsets[f] = align_up(end, std::uint64_t{kPackAlign});
      end = offsets[f] + room_of(fields_.all[f], kept[f]);
    }
    std::byte* const memory = room(end);
    if (memory == nullptr) return fail(Code::kExhausted, "no memory for a record that is kept");
    for (std::size_t f = 0; f < inputs.size(); ++f) write_field(fields_.all[f], kept[f], memory + offsets[f]);
    return {};
  }

  Status run(Scratch&, const SampleId&, Inputs, Outputs, std::span<FieldIndex>) const override {
    return fail(Code::kUnsupported, "a part of a plan without ops makes no tensors");
  }
  Result<std::vector<OwnedTensor>> sample(const SampleId&, Inputs) const override {
    return fail(Code::kUnsupported, "a part of a plan without ops makes no tensors");
  }
  void unpack(Bytes, std::span<Bytes>) const override { CHECK(false); }  // nothing is packed before it
  void collect_profile(Scratch&, std::vector<OpProfile>&) const override {}
  void collect_decodes(Scratch&, DecodePaths&) const override {}

 private:
  /// Turn a file into what is kept of it. Errors: kCorrupt.
  Status shorten(Scratch::Impl::SourceKeeper& keeper, std::vector<std::uint8_t>& made, FieldIndex* given,
                 KeptField& kept) const {
    ASSIGN(const ImageFormat format, sniff(kept.bytes));
    if (format != ImageFormat::kJpeg) return {};
    const std::span<const std::uint8_t> entry = keeper.maker.make(kept.bytes, limits_);
    if (keeper.maker.refused()) return fail(Code::kCorrupt, "a JPEG that is refused");
    if (!entry.empty()) {
      made.assign(entry.begin(), entry.end());
      kept.bytes = std::as_bytes(std::span(made));
      kept.packed = true;
      return {};
    }
    FieldIndex index;
    index.known = given != nullptr ? given->known : Bytes();
    index.spacing = given != nullptr ? given->spacing : kSpacing;
    if (!keeper.indexes.complete(kept.bytes, index)) return {};
    made = std::move(index.made);
    kept.index = made.empty() ? index.known : std::as_bytes(std::span(made));
    return {};
  }

  const Fields fields_;
  const ImageLimits limits_;
  const std::vector<TensorSpec> no_outputs_;
};

class BehindSource final : public Plan {
 public:
  BehindSource(Fields fields, std::shared_ptr<const Plan> whole)
      : fields_(std::move(fields)), whole_(std::move(whole)) {}

  const std::vector<SourceField>& inputs() const override { return fields_.all; }
  const std::vector<TensorSpec>& outputs() const override { return whole_->outputs(); }
  bool decodes_windows() const override { return whole_->decodes_windows(); }

  Status run(Scratch& scratch, const SampleId& id, Inputs inputs, Outputs outputs,
             std::span<FieldIndex>) const override {
    FieldBytes fields;
    std::span<FieldIndex> indexes;
    TRY(begin(scratch.impl(), inputs, fields, indexes));
    return end(indexes, whole_->run(scratch, id, std::span(fields).first(inputs.size()), outputs, indexes));
  }
  Status pack(Scratch& scratch, const SampleId& id, Inputs inputs, const PackRoom& room,
              std::span<FieldIndex>) const override {
    FieldBytes fields;
    std::span<FieldIndex> indexes;
    TRY(begin(scratch.impl(), inputs, fields, indexes));
    return end(indexes, whole_->pack(scratch, id, std::span(fields).first(inputs.size()), room, indexes));
  }
  /// Fields that are not there are empty, which run() refuses.
  void unpack(Bytes packed, std::span<Bytes> inputs) const override {
    std::ranges::fill(inputs, Bytes());
    read_fields(fields_, packed, [&](std::size_t f, Bytes field, const KeptField&) { inputs[f] = field; });
  }
  bool can_unpack(Bytes packed) const override {
    return read_fields(fields_, packed, [](std::size_t, Bytes, const KeptField&) {});
  }
  Result<std::vector<OwnedTensor>> sample(const SampleId&, Inputs) const override {
    return fail(Code::kUnsupported, "packed coefficients are not decoded op by op");
  }
  void collect_profile(Scratch& scratch, std::vector<OpProfile>& total) const override {
    whole_->collect_profile(scratch, total);
  }
  void collect_decodes(Scratch& scratch, DecodePaths& total) const override {
    whole_->collect_decodes(scratch, total);
  }

 private:
  static std::unexpected<Error> damaged() {
    return fail(Code::kNotFound, "a record that was kept is not whole");
  }

  Status begin(Scratch::Impl& impl, Inputs inputs, FieldBytes& fields, std::span<FieldIndex>& indexes) const {
    CHECK(inputs.size() == fields_.all.size());
    impl.kept_indexes.resize(inputs.size());
    for (std::size_t f = 0; f < inputs.size(); ++f) {
      KeptField kept;
      if (!read_field(fields_.all[f], fields_.packed[f], inputs[f], kept)) return damaged();
      fields[f] = kept.bytes;
      FieldIndex& index = impl.kept_indexes[f];
      index.known = kept.index;
      index.packed = kept.packed;
      index.damaged = false;
    }
    indexes = impl.kept_indexes;
    return {};
  }
  static Status end(std::span<const FieldIndex> indexes, Status status) {
    if (std::ranges::any_of(indexes, &FieldIndex::damaged)) return damaged();
    return status;
  }

  const Fields fields_;
  const std::shared_ptr<const Plan> whole_;
};

/// Gives the inputs of the whole plan out of records that were kept as they are. It runs nothing.
class BehindRecords final : public Plan {
 public:
  explicit BehindRecords(Fields fields) : fields_(std::move(fields)) {}

  const std::vector<SourceField>& inputs() const override { return fields_.all; }
  const std::vector<TensorSpec>& outputs() const override { return no_outputs_; }
  bool decodes_windows() const override { return false; }
  void unpack(Bytes packed, std::span<Bytes> inputs) const override {
    std::ranges::fill(inputs, Bytes());
    read_fields(fields_, packed,
                [&](std::size_t f, Bytes, const KeptField& kept) { inputs[f] = kept.bytes; });
  }
  bool can_unpack(Bytes packed) const override {
    return read_fields(fields_, packed, [](std::size_t, Bytes, const KeptField&) {});
  }
  Status run(Scratch&, const SampleId&, Inputs, Outputs, std::span<FieldIndex>) const override {
    return fail(Code::kUnsupported, "records that are kept are computed by the whole plan");
  }
  Status pack(Scratch&, const SampleId&, Inputs, const PackRoom&, std::span<FieldIndex>) const override {
    return fail(Code::kUnsupported, "records that are kept are not packed again");
  }
  Result<std::vector<OwnedTensor>> sample(const SampleId&, Inputs) const override {
    return fail(Code::kUnsupported, "records that are kept are computed by the whole plan");
  }
  void collect_profile(Scratch&, std::vector<OpProfile>&) const override {}
  void collect_decodes(Scratch&, DecodePaths&) const override {}

 private:
  const Fields fields_;
  const std::vector<TensorSpec> no_outputs_;
};

}  // namespace

Result<SourceParts> part_at_source(std::shared_ptr<const Pipeline> pipeline, PlanOptions options) {
  options.first = 0;
  options.last = SIZE_MAX;
  ASSIGN(std::shared_ptr<const Plan> whole, Plan::compile(std::move(pipeline), options));
  Fields fields{.all = whole->inputs(), .packed = {}};
  SourceParts parts;
  for (std::size_t f = 0; f < fields.all.size(); ++f) {
    fields.packed.push_back(fields.all[f].kind == SourceField::Kind::kEncoded && whole->takes_packed(f));
    if (fields.packed.back()) parts.packed.push_back(f);
  }
  if (parts.packed.empty())
    return fail(Code::kUnsupported, "no field of this plan is decoded by decode_image and by nothing else");
  const ImageLimits limits{options.image_pixels_max, options.jpeg_scans_max};
  parts.before = std::make_shared<BeforeSource>(fields, limits);
  parts.behind = std::make_shared<BehindSource>(std::move(fields), std::move(whole));
  return parts;
}

Result<SourceParts> part_records(const Pipeline& pipeline) {
  const Fields fields{.all = pipeline.fields(), .packed = std::vector<bool>(pipeline.fields().size())};
  if (std::ranges::none_of(
          fields.all, [](const SourceField& field) { return field.kind == SourceField::Kind::kEncoded; }))
    return fail(Code::kUnsupported, "no field of this pipeline is read from storage");
  return SourceParts{.before = std::make_shared<BeforeSource>(fields, ImageLimits{}),
                     .behind = std::make_shared<BehindRecords>(fields)};
}

}  // namespace carya::transforms
