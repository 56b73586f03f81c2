#include "transforms/pipeline/pipeline.h"

#include <fmt/core.h>
#include <algorithm>

#include "transforms/op/params.h"
#include "transforms/ops/encoded/decode_raw.h"
#include "transforms/ops/encoded/transcode.h"
#include "transforms/ops/geometry.h"
#include "transforms/ops/registry.h"
#include "transforms/pipeline/codec_versions.h"
#include "transforms/pipeline/source.h"

namespace carya::transforms {
namespace {

constexpr std::int64_t kBatchMax = 1 << 20;
constexpr std::int64_t kPartsMax = 1 << 20;
constexpr std::int64_t kPositionsMax = std::int64_t{1} << 40;  // of an epoch whose records are drawn
constexpr std::int64_t kReuseMax = std::int64_t{1} << 48;
constexpr std::size_t kReusePartsMax = 64;
/// The entry of the list of ops before which epochs share random numbers.
constexpr std::string_view kReuse = "reuse_augmentation";
/// The entry behind which ops have the random numbers of a part.
constexpr std::string_view kPart = "part";

std::vector<TensorSpec> specs_of(const std::vector<FieldState>& states) {
  std::vector<TensorSpec> specs;
  for (const FieldState& state : states) specs.push_back(state.spec);
  return specs;
}

// An op with those that it does, as often as it does them.
std::size_t count_ops(const Op& op) {
  std::size_t inner = 0;
  for (const auto& one : op.inner()) inner += count_ops(*one);
  return 1 + (op.traits().kind == OpKind::kViews ? 2 : 1) * inner;
}

void hash_versions(Hasher128& hasher, const Op& op) {
  hasher.update(static_cast<std::uint64_t>(op.traits().version));
  for (const auto& inner : op.inner()) hash_versions(hasher, *inner);
}

// One view: its canonical object and its line.
Result<Json> parse_view(const Json& given, std::string& text) {
  Params params("views", given, "view");
  TRY(params.fault());
  const Json* kind = given.find("view");
  const std::string* name = kind ? kind->get<std::string>() : nullptr;
  if (name && *name == "subset") {
    const auto indices =
        params.integers("indices", 0, kJsonBytesMax, 0, kRecordsMax, "a list of record indices");
    text = fmt::format("subset({} indices)", indices.size());
  } else if (name && *name == "take") {
    text = fmt::format("take({})", params.integer("count", 0, kRecordsMax));
  } else if (name && *name == "split") {
    const double fraction = params.number("fraction", 0.0, 1.0, std::nullopt);
    const std::uint64_t seed = params.seed("seed");
    const std::int64_t part = params.integer("part", 0, 1);
    text = fmt::format("split({}, seed={})[{}]", Json(fraction).text(), seed, part);
  } else {
    params.reject("view", "subset, take or split");
  }
  TRY(params.finish());
  return Json(params.take_canonical());
}

// One way in which a stream does not go through each record once: its canonical object and its line.
Result<Json> parse_chosen(const std::string& kind, const Json& given, std::string& text) {
  Params params("records: " + kind, given, "");
  TRY(params.fault());
  if (kind == "kept") {
    params.string("fingerprint");
    text = fmt::format("kept({} records)", params.integer("count", 1, kRecordsMax));
  } else {
    if (kind == "drawn") {
      params.string("fingerprint");
      params.seed("key");
    } else {
      params.integer("times", 1, kPositionsMax);
      params.integer("within", 1, kPositionsMax);
    }
    text = fmt::format("{}({} positions)", kind, params.integer("positions", 1, kPositionsMax));
  }
  TRY(params.finish());
  return Json(params.take_canonical());
}

Result<BatchSpec> parse_batch(const Json& given, std::string& canonical, std::string& text) {
  Params params("batch", given, "");
  const auto batch_size = params.integer_or_null("batch_size", 1, kBatchMax);
  const auto global_size = params.integer_or_null("global_size", 1, kBatchMax);
  BatchSpec spec{.batch_size = batch_size.value_or(0), .global_size = global_size.value_or(0)};
  spec.drop_last = params.boolean("drop_last", false);
  spec.pad_last = params.boolean("pad_last", false);
  if (params.ok() && batch_size.has_value() == global_size.has_value())
    params.reject("batch_size", "exactly one of batch_size and global_size");
  if (params.ok() && spec.drop_last && spec.pad_last)
    params.reject("pad_last", "False when drop_last is True");
  TRY(params.finish());
  canonical = Json(params.take_canonical()).text();
  text =
      batch_size ? fmt::format("batch({}", *batch_size) : fmt::format("batch(global_size={}", *global_size);
  if (spec.drop_last) text += ", drop_last=True";
  if (spec.pad_last) text += ", pad_last=True";
  text += ')';
  return spec;
}

}  // namespace

/// Builds a pipeline from its document, part by part in the order of the chain.
class PipelineParser {
 public:
  Result<std::shared_ptr<const Pipeline>> parse(std::string_view text) {
    const Result<Json> document = parse_json(text);
    if (!document) return fail(document.error().code, "pipeline document: " + document.error().message);
    Params params("pipeline document", *document, "");
    TRY(params.fault());
    params.integer("version", 1, 1);
    const Json& source = params.raw("source");
    const Json& views = params.raw("views");
    const Json& shuffle = params.raw("shuffle");
    const Json& ops = params.raw("ops");
    const Json& batch = params.raw("batch");
    const Json& records = params.raw("records");
    TRY(params.finish());
    TRY(take_source(source));
    TRY(take_views(views));
    TRY(take_records(records));
    TRY(take_shuffle(shuffle));
    TRY(take_ops(ops));
    TRY(take_batch(batch));
    pipeline_->json_ =
        R"({"version":1,"source":)" + pipeline_->source_json_ + R"(,"views":)" + pipeline_->views_json_ +
        R"(,"shuffle":)" + shuffle_json_ + R"(,"ops":)" + ops_json_ + R"(,"batch":)" + batch_json_ +
        (pipeline_->records_json_.empty() ? "" : R"(,"records":)" + pipeline_->records_json_) + "}";
    return std::shared_ptr<const Pipeline>(std::move(pipeline_));
  }

 private:
  void add_line(std::string text) { pipeline_->lines_.push_back({std::move(text), specs_of(states_)}); }

  Status take_source(const Json& given) {
    ASSIGN(SourceSpec source, parse_source(given));
    pipeline_->source_json_ = std::move(source.json);
    pipeline_->fields_ = std::move(source.fields);
    states_ = initial_states(pipeline_->fields_);
    add_line(std::move(source.text));
    return {};
  }

  Status take_views(const Json& given) {
    static const Json::Array kNone;
    const auto* views = given.is_null() ? &kNone : given.get<Json::Array>();
    if (!views || views->size() > kOpsMax)
      return fail(Code::kInvalidArgument,
                  fmt::format("pipeline document: views: got {}; give a list of at most {} views",
                              given.excerpt(), kOpsMax));
    Json::Array canonical;
    for (const Json& view : *views) {
      std::string text;
      ASSIGN(Json parsed, parse_view(view, text));
      canonical.push_back(std::move(parsed));
      add_line(std::move(text));
    }
    pipeline_->views_json_ = Json(std::move(canonical)).text();
    return {};
  }

  Status take_records(const Json& given) {
    if (given.is_null()) return {};
    Params params("records", given, "");
    Json::Object canonical;
    for (const std::string kind : {"kept", "drawn", "repeated"}) {
      const Json& one = params.raw(kind);
      if (one.is_null()) continue;
      if (kind == "repeated" && !canonical.empty() && canonical.back().first == "drawn")
        params.reject(kind, "either this or drawn");
      std::string text;
      ASSIGN(Json parsed, parse_chosen(kind, one, text));
      canonical.emplace_back(kind, std::move(parsed));
      add_line(std::move(text));
    }
    TRY(params.finish());
    if (!canonical.empty()) pipeline_->records_json_ = Json(std::move(canonical)).text();
    return {};
  }

  Status take_shuffle(const Json& given) {
    if (given.is_null()) return {};
    Params params("shuffle", given, "");
    pipeline_->shuffle_seed_ = params.seed("seed");
    TRY(params.finish());
    shuffle_json_ = Json(params.take_canonical()).text();
    add_line(fmt::format("shuffle(seed={})", *pipeline_->shuffle_seed_));
    return {};
  }

  Status take_ops(const Json& given) {
    static const Json::Array kNone;
    const auto* ops = given.is_null() ? &kNone : given.get<Json::Array>();
    const auto refuse = [&] {
      return fail(
          Code::kInvalidArgument,
          fmt::format(
              "pipeline document: ops: got {}; give a list of at most {} ops, those inside of others counted",
              given.excerpt(), kOpsMax));
    };
    if (!ops || ops->size() > kOpsMax) return refuse();
    std::size_t count = 0;
    std::vector<GivenHints> hints;
    ops_json_ += '[';
    for (const Json& entry : *ops) {
      if (ops_json_.size() > 1) ops_json_ += ',';
      if (is_entry(entry, kBarrier)) {
        TRY(take_barrier(entry));
        continue;
      }
      if (is_entry(entry, kReuse)) {
        TRY(take_reuse(entry));
        continue;
      }
      if (is_entry(entry, kPart)) {
        TRY(take_part(entry));
        continue;
      }
      Json object = entry;
      ASSIGN(GivenHints hint, take_hints(object));
      ASSIGN(std::unique_ptr<Op> op, parse_op(object));
      count += count_ops(*op);
      if (count > kOpsMax) return refuse();
      if (as_transcode(*op) != nullptr && !pipeline_->ops_.empty())
        return fail(Code::kInvalidArgument,
                    "transcode: stands behind " + pipeline_->ops_.back()->name() + "; put it first, once");
      std::vector<std::size_t> indices;
      TRY(op->infer(states_, indices));
      ops_json_ += hint.in_json(op->json());
      add_line(hint.in_text(op->text()));
      hints.push_back(std::move(hint));
      pipeline_->ops_.push_back(std::move(op));
    }
    ops_json_ += ']';
    ASSIGN(pipeline_->order_hints_, look_up(pipeline_->ops_, hints));
    pipeline_->outputs_ = specs_of(states_);
    return {};
  }

  static bool is_entry(const Json& entry, std::string_view name) {
    const Json* kind = entry.find("op");
    return kind && kind->get<std::string>() && *kind->get<std::string>() == name;
  }

  Status take_barrier(const Json& given) {
    Params params(std::string(kBarrier), given, "op");
    TRY(params.finish());
    ops_json_ += Json(params.take_canonical()).text();
    add_line(std::string(kBarrier) + "()");
    pipeline_->barriers_.push_back(pipeline_->ops_.size());
    return {};
  }

  Status take_reuse(const Json& given) {
    if (reuses_)
      return fail(Code::kInvalidArgument,
                  std::string(kReuse) + ": the pipeline has one already; give one place and one number");
    reuses_ = true;
    Params params(std::string(kReuse), given, "op");
    constexpr std::string_view kWhat =
        "a number of epochs from 1, or a schedule: pairs of an epoch, ascending from 0, and the number from "
        "there on";
    std::vector<std::int64_t> numbers = params.integers("epochs", 1, 2 * kReusePartsMax, 0, kReuseMax, kWhat);
    TRY(params.fault());
    const bool is_schedule = numbers.size() > 1;
    std::string told = is_schedule ? "" : std::to_string(numbers[0]);
    if (!is_schedule) {
      params.set_canonical("epochs", Json(numbers[0]));
      numbers.insert(numbers.begin(), 0);
    }
    std::vector<EpochGroups::Part> parts;
    bool good = numbers.size() % 2 == 0;
    for (std::size_t i = 0; good && i < numbers.size(); i += 2) {
      const std::int64_t from = numbers[i], epochs = numbers[i + 1];
      good = epochs >= 1 && (i == 0 ? from == 0 : from > numbers[i - 2]);
      parts.push_back({static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(epochs)});
      if (is_schedule) told += fmt::format("{}{}: {}", i == 0 ? "" : ", ", from, epochs);
    }
    if (!good) params.reject("epochs", kWhat);
    TRY(params.finish());
    ops_json_ += Json(params.take_canonical()).text();
    add_line(fmt::format("{}(epochs={})", kReuse, is_schedule ? "{" + told + "}" : told));
    pipeline_->reuse_ops_ = pipeline_->ops_.size();
    pipeline_->reuse_groups_ = EpochGroups(std::move(parts));
    return {};
  }

  Status take_part(const Json& given) {
    Params params(std::string(kPart), given, "op");
    const std::int64_t number = params.integer("number", 0, kPartsMax);
    TRY(params.finish());
    ops_json_ += Json(params.take_canonical()).text();
    pipeline_->parts_.emplace_back(pipeline_->ops_.size(), static_cast<std::uint32_t>(number));
    return {};
  }

  Status take_batch(const Json& given) {
    if (given.is_null()) return {};
    std::string text;
    ASSIGN(const BatchSpec batch, parse_batch(given, batch_json_, text));
    pipeline_->batch_ = batch;
    std::vector<TensorSpec> batched = pipeline_->outputs_;
    const std::int64_t rows =
        batch.batch_size > 0 ? batch.batch_size : -1;  // per rank: known with the world size
    for (TensorSpec& spec : batched) spec.shape.insert(spec.shape.begin(), rows);
    pipeline_->lines_.push_back({std::move(text), std::move(batched)});
    return {};
  }

  std::shared_ptr<Pipeline> pipeline_{new Pipeline};
  std::vector<FieldState> states_;
  std::string shuffle_json_ = "null";
  std::string ops_json_;
  std::string batch_json_ = "null";
  bool reuses_ = false;
};

Result<std::shared_ptr<const Pipeline>> Pipeline::parse(std::string_view json) {
  return PipelineParser().parse(json);
}

const std::string& Pipeline::source_json() const {
  return source_json_;
}
const std::vector<SourceField>& Pipeline::fields() const {
  return fields_;
}
const std::string& Pipeline::views_json() const {
  return views_json_;
}
const std::string& Pipeline::records_json() const {
  return records_json_;
}
bool Pipeline::shuffled() const {
  return shuffle_seed_.has_value();
}
std::uint64_t Pipeline::seed() const {
  return shuffle_seed_.value_or(0);
}
const std::vector<std::unique_ptr<Op>>& Pipeline::ops() const {
  return ops_;
}
const std::vector<OrderHints>& Pipeline::order_hints() const {
  return order_hints_;
}
const std::vector<std::size_t>& Pipeline::barriers() const {
  return barriers_;
}
const EpochGroups& Pipeline::epoch_groups(std::size_t op) const {
  static const EpochGroups alone;
  return op < reuse_ops_ ? reuse_groups_ : alone;
}
std::optional<std::uint32_t> Pipeline::part(std::size_t op) const {
  const auto behind = std::ranges::upper_bound(parts_, op, {}, &std::pair<std::size_t, std::uint32_t>::first);
  if (behind == parts_.begin()) return std::nullopt;
  return (behind - 1)->second;
}
const std::optional<BatchSpec>& Pipeline::batch() const {
  return batch_;
}
const std::vector<TensorSpec>& Pipeline::outputs() const {
  return outputs_;
}
const std::vector<PipelineLine>& Pipeline::lines() const {
  return lines_;
}
const std::string& Pipeline::to_json() const {
  return json_;
}

Hash128 Pipeline::fingerprint(OnError on_error, const std::vector<std::size_t>& order) const {
  Hasher128 hasher;
  hasher.update(std::string_view("carya pipeline 1"));
  hasher.update(static_cast<std::uint64_t>(on_error));
  hasher.update(static_cast<std::uint64_t>(ops_.size()));
  bool decodes = false;
  for (const auto& op : ops_) {
    hasher.update(std::string_view(op->json()));
    hash_versions(hasher, *op);
    decodes |= decodes_picture(*op) || as_transcode(*op) != nullptr;
  }
  if (!reuse_groups_.each_alone()) {  // else the bits of a pipeline without
    hasher.update(kReuse);
    hasher.update(static_cast<std::uint64_t>(reuse_ops_));
    for (const auto& [from, epochs] : reuse_groups_.parts()) {
      if (from > 0) hasher.update(from);
      hasher.update(epochs);
    }
  }
  if (!parts_.empty()) hasher.update(kPart);
  for (const auto& [op, number] : parts_) {
    hasher.update(static_cast<std::uint64_t>(op));
    hasher.update(static_cast<std::uint64_t>(number));
  }
  // Who never decodes need not care whose codec is installed.
  if (decodes)
    for (const std::string& codec : codec_versions()) hasher.update(std::string_view(codec));
  if (!order.empty()) hasher.update(std::string_view("order"));
  for (const std::size_t op : order) hasher.update(static_cast<std::uint64_t>(op));
  return hasher.digest();
}

}  // namespace carya::transforms
