#include "loader/plan/stream_cache.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "loader/host/host.h"
#include "loader/plan/cache_places.h"
#include "loader/plan/order_choice.h"
#include "shm/memory_limit.h"
#include "transforms/op/order_hints.h"
#include "transforms/ops/encoded/transcode.h"
#include "transforms/pipeline/codec_versions.h"
#include "transforms/plan/source_parts.h"

namespace carya::loader {
namespace {

using autotune::CacheForm;
using autotune::CachePoint;
using Json = nlohmann::json;
using Form = CacheOptions::Form;
using Mode = CacheOptions::Mode;

constexpr std::int64_t kLookEveryNs = 1'000'000'000;
/// A place that was measured and does not pay is left; then others are tried, but not for ever.
constexpr int kChangesMax = 4;
/// Samples that were asked for are kept as if the run were long.
constexpr double kManyEpochs = 100;
constexpr double kMicro = 1e6;
/// The name of the place before all ops.
constexpr char kReading[] = "reading";
/// What packed records are, in the names of places in files; another one when their bytes change.
constexpr char kCoefficients[] = "coefficients 1";
constexpr char kRecords[] = "records 1";

Json figure(double seconds) {
  return seconds > 0 ? Json(seconds * kMicro) : Json(nullptr);
}

const char* form_name(const CachePoint& at) {
  switch (at.form) {
    case CacheForm::kResults:
      return "raw";
    case CacheForm::kCoefficients:
      return "coefficients";
    case CacheForm::kRecords:
      return "records";
  }
  return "";
}

void hash_op(Hasher128& hasher, const transforms::Op& op) {
  hasher.update(std::string_view(op.json()));
  hasher.update(static_cast<std::uint64_t>(op.traits().version));
  for (const auto& inner : op.inner()) hash_op(hasher, *inner);
}

/// One tier of files, for stats().
Json tier_report(const FileTier& tier, const TimedSamples& hits, std::uint64_t looked, double sample_s) {
  const FileTierStats stats = tier.stats();
  const double count = static_cast<double>(hits.count());
  const double saved = count * (sample_s - hits.mean_s()) - stats.read_cpu_s - stats.write_cpu_s;
  return {{"tier", tier.options().kind == TierKind::kDisk ? "disk" : "shared"},
          {"path", tier.options().folder},
          {"capacity_bytes", tier.options().capacity_bytes},
          {"bytes", stats.store.tier_bytes},
          {"records", stats.store.entries},
          {"hits", hits.count()},
          {"hit_share", looked > 0 ? count / static_cast<double>(looked) : 0.0},
          {"hit_us", figure(hits.mean_s())},
          {"fetched", stats.fetched},
          {"fetched_bytes", stats.fetched_bytes},
          {"fetch_failures", stats.fetch_failures},
          {"written", stats.store.written},
          {"written_bytes", stats.store.written_bytes},
          {"write_failures", stats.write_failures},
          {"damaged", stats.store.damaged},
          {"admitted_share", stats.admitted_share},
          {"past_page_cache", stats.past_page_cache},
          {"full", stats.is_full},
          {"over_budget", stats.is_over_budget},
          {"age_s", stats.store.oldest_s > 0
                        ? Json(std::max(0.0, static_cast<double>(std::time(nullptr)) - stats.store.oldest_s))
                        : Json(nullptr)},
          {"open", stats.is_open},
          {"read_cpu_s", stats.read_cpu_s},
          {"write_cpu_s", stats.write_cpu_s},
          {"saved_cpu_s", hits.timed() > 0 && sample_s > 0 ? Json(saved) : Json(nullptr)},
          {"trouble", stats.trouble.empty() ? Json(nullptr) : Json(stats.trouble)}};
}

}  // namespace

bool KeptPlace::distrusts(std::uint64_t source) const {
  if (damaged == 0) return false;
  const MutexLock lock(distrusting);
  return distrusted.contains(source);
}

void KeptPlace::distrust(std::uint64_t source) {
  const MutexLock lock(distrusting);
  try {
    distrusted.insert(source);
  } catch (const std::bad_alloc&) {
  }
  damaged = std::max<std::uint64_t>(1, distrusted.size());
}

std::uint64_t capacity_of(const CacheOptions& options) {
  if (options.bytes > 0) return options.bytes;
  const std::uint64_t available = shm::available_memory_bytes();
  if (available == UINT64_MAX) return 0;  // a share of what nobody knows
  // Ranks in processes of their own keep apart.
  const double processes = std::max(1U, read_host_info().local_processes);
  return static_cast<std::uint64_t>(options.share * static_cast<double>(available) / processes);
}

StreamCache::StreamCache(std::shared_ptr<const transforms::Pipeline> pipeline,
                         const StreamCacheOptions& options)
    : pipeline_(std::move(pipeline)), options_(options) {}

Result<std::shared_ptr<StreamCache>> StreamCache::create(std::shared_ptr<const transforms::Pipeline> pipeline,
                                                         const StreamCacheOptions& options,
                                                         std::vector<std::size_t> order,
                                                         const PlanProfile& profile) {
  auto made = std::shared_ptr<StreamCache>(new StreamCache(std::move(pipeline), options));
  const MutexLock lock(made->deciding_);
  made->order_ = std::move(order);
  made->read_ = read_cost(options.stores, options.core_price, options.threads);
  if (options.identities) {
    ASSIGN(made->bell_, FetchBell::create());
  }
  TRY(made->check_place());
  if (options.cache.mode == Mode::kOn) made->decide(profile, options.epoch);
  if (made->why_.empty()) made->why_ = "nothing was measured yet";
  return made;
}

/// What the options ask for can be.
Status StreamCache::check_place() const {
  const CacheOptions& asked = options_.cache;
  const bool before_all = asked.form == Form::kCoefficients || asked.form == Form::kRecords;
  if (!before_all) {
    if (asked.after.empty()) return {};
    TRY(named_place(cache_places(pipeline_, order_)));
    return {};
  }
  if (!asked.after.empty())
    return fail(Code::kInvalidArgument,
                fmt::format("cache: after: got \"{}\" beside form=\"{}\", which are kept before all "
                            "operations; give one of the two",
                            asked.after, asked.form == Form::kRecords ? "records" : "coefficients"));
  if (asked.form == Form::kRecords) {
    if (transforms::part_records(*pipeline_)) return {};
    return fail(
        Code::kInvalidArgument,
        "cache: form: got \"records\", but no field of this pipeline is read from storage; leave form "
        "out");
  }
  if (!options_.fuse || !can_keep_coefficients(pipeline_, order_))
    return fail(
        Code::kInvalidArgument,
        "cache: form: got \"coefficients\", but no field of this pipeline is decoded by decode_image and by "
        "nothing else; give \"raw\" or \"records\"");
  return {};
}

std::string StreamCache::label_of(std::size_t ops) const {
  if (ops == 0) return kReading;
  return transforms::op_labels(pipeline_->ops())[order_[ops - 1]];
}

/// The place behind the op that the options name.
Result<std::size_t> StreamCache::named_place(const std::vector<std::size_t>& places) const {
  const std::string& name = options_.cache.after;
  std::string found, random;
  for (std::size_t ops = 1; ops <= order_.size(); ++ops) {
    const bool may = std::ranges::find(places, ops) != places.end();
    if (may && label_of(ops) == name) return ops;
    if (may) found += (found.empty() ? "\"" : ", \"") + label_of(ops) + "\"";
    if (random.empty() && !is_repeatable(*pipeline_->ops()[order_[ops - 1]])) random = label_of(ops);
  }
  const std::string why = random.empty() ? "" : ", since " + random + " is random";
  return fail(
      Code::kInvalidArgument,
      fmt::format("cache: after: got \"{}\", behind which no samples can be kept{}; give {}", name, why,
                  found.empty() ? "cache=\"off\": there is no such place in this pipeline" : found));
}

std::shared_ptr<KeptPlace> StreamCache::place() const {
  const MutexLock lock(placing_);
  return place_;
}

bool StreamCache::ask() {
  if (asked_.load(std::memory_order_relaxed) || monotonic_ns() < look_ns_.load(std::memory_order_relaxed))
    return false;
  return !asked_.exchange(true);
}

void StreamCache::look(const PlanProfile& known, const std::vector<std::size_t>& order, const Seen& seen) {
  asked_ = false;
  look_ns_ = monotonic_ns() + kLookEveryNs;
  const MutexLock lock(deciding_);
  if (ended_) return;
  if (const auto kept = place()) {
    kept->samples->look();
    kept->files->look();
  }
  // Never the order of another stream, which may have other bits. What is kept belongs to the order of its place.
  if (!place()) order_ = order;
  has_jpegs_ = seen.has_jpegs;
  read_ = read_cost(seen.stores, options_.core_price, options_.threads);
  decide(known, seen.epoch);
}

/// The places to choose from. Coefficients are weighed where the stream has met JPEGs, records where a request to a store
/// is saved by each.
std::vector<CachePoint> StreamCache::places_now() const {
  const CacheOptions& asked = options_.cache;
  if (!asked.after.empty()) {
    const auto named = named_place(cache_places(pipeline_, order_));
    return named ? std::vector{CachePoint{.ops = *named}} : std::vector<CachePoint>{};
  }
  const auto kept = place();
  const auto weighed = [&](Form form, CacheForm as, bool worth) {
    return asked.form == form || (asked.form == Form::kAny && (worth || (kept && kept->at.form == as)));
  };
  std::vector<CachePoint> places;
  if (weighed(Form::kRecords, CacheForm::kRecords, !options_.stores.empty()) &&
      transforms::part_records(*pipeline_))
    places.push_back({.form = CacheForm::kRecords});
  if (weighed(Form::kCoefficients, CacheForm::kCoefficients, has_jpegs_) && options_.fuse &&
      can_keep_coefficients(pipeline_, order_))
    places.push_back({.form = CacheForm::kCoefficients});
  if (asked.form == Form::kAny || asked.form == Form::kRaw)
    for (const std::size_t ops : cache_places(pipeline_, order_)) places.push_back({.ops = ops});
  return places;
}

/// Choose by what is known. What was asked for is chosen once; then only its figures change.
void StreamCache::decide(const PlanProfile& known, std::uint64_t epoch) {
  const bool asked_for = options_.cache.mode == Mode::kOn;
  const OrderProfile* const ran = known.find(order_);
  if (!asked_for && !(ran && ran->timed_samples() >= kTrustedSamples)) return;
  const std::vector<CachePoint> places = places_now();
  if (places.empty()) {
    why_ = "no op before the first random one leaves everything decoded";
    return;
  }
  auto facts = cache_facts(*pipeline_, known, order_, places, options_.record_bytes);
  if (!facts) {
    why_ = "not decided: " + facts.error().message;
    return;
  }
  facts->read_s = read_.cpu_s + read_.money_s;
  facts->wait_s = read_.wait_s;
  facts->records = static_cast<double>(options_.records);
  facts->capacity_bytes =
      static_cast<double>(capacity() + options_.cache.disk.bytes + options_.cache.shared.bytes);
  facts->epochs_left =
      asked_for ? kManyEpochs : autotune::expected_epochs(options_.epochs, static_cast<double>(epoch));
  facts->filling_epochs = autotune::filling_epochs(static_cast<double>(options_.ranks), facts->epochs_left);
  correct(*facts, known);
  auto choice = autotune::choose_cache(*facts, present(*facts));
  if (!choice) {
    why_ = "not decided: " + choice.error().message;
    return;
  }
  facts_ = *facts;
  choice_ = *choice;
  const auto chosen = choice_.chosen.place;
  if (const auto now = present(facts_); asked_for && now) {
    choice_.chosen = choice_.all[*now + 1];
  } else if (asked_for && !chosen) {  // whether it pays or not
    const auto best = std::ranges::min_element(choice_.all.begin() + 1, choice_.all.end(), {},
                                               &autotune::CacheCost::later_s);
    if (best != choice_.all.end()) choice_.chosen = *best;
  }
  turn_to(choice_.chosen.place ? std::optional(facts_.places[*choice_.chosen.place].at) : std::nullopt);
}

std::optional<std::size_t> StreamCache::present(const autotune::CacheInputs& facts) const {
  const auto kept = place();
  if (!kept) return std::nullopt;
  const auto found = std::ranges::find(facts.places, kept->at, &autotune::CachePlace::at);
  if (found == facts.places.end()) return std::nullopt;
  return static_cast<std::size_t>(found - facts.places.begin());
}

/// Put what was measured in the place of what the model says.
void StreamCache::correct(autotune::CacheInputs& facts, const PlanProfile& known) {
  if (const OrderProfile* const ran = known.find(order_); ran && ran->timed_samples() >= kTrustedSamples) {
    const double model_s = std::exchange(facts.sample_s, ran->cpu_ns() * 1e-9);
    for (autotune::CachePlace& place :
         facts.places) {  // a record is computed as a whole, wherever it comes from
      if (place.at.form != CacheForm::kRecords) continue;
      place.hit_s += facts.sample_s - model_s;
      place.fill_s += facts.sample_s - model_s;
    }
  }
  const auto kept = place();
  const SampleCacheStats stats = kept ? kept->samples->stats() : SampleCacheStats{};
  if (kept) {
    autotune::CachePlace& here = measured_[kept->at];
    if (stats.records > 0) here.bytes = static_cast<double>(stats.bytes) / static_cast<double>(stats.records);
    if (kept->hits.timed() >= kTrustedSamples) here.hit_s = kept->hits.mean_s();
    if (kept->fills.timed() >= kTrustedSamples) here.fill_s = kept->fills.mean_s();
  }
  for (autotune::CachePlace& place : facts.places) {
    const auto found = measured_.find(place.at);
    if (found == measured_.end()) continue;
    if (found->second.bytes > 0) place.bytes = found->second.bytes;
    if (found->second.hit_s > 0) place.hit_s = found->second.hit_s;
    if (found->second.fill_s > 0) place.fill_s = found->second.fill_s;
  }
  const auto now = present(facts);
  if (!now) return;
  // What was filled is paid: only the rest still costs more than it would without.
  autotune::CachePlace& here = facts.places[*now];
  const double share = std::min(1.0, facts.capacity_bytes / (facts.records * here.bytes));
  const double filled = share > 0 ? static_cast<double>(stats.records) / (share * facts.records) : 1;
  here.fill_s = facts.sample_s + (1 - std::min(1.0, filled)) * (here.fill_s - facts.sample_s);
}

/// The room for samples: what there is of it, or would be.
std::uint64_t StreamCache::capacity() const {
  if (const auto kept = place()) return kept->samples->stats().capacity_bytes;
  return options_.budget ? std::min(options_.capacity_bytes, options_.budget->left())
                         : options_.capacity_bytes;
}

/// What is kept at a place, in words that name it: "" for the results of ops.
std::string StreamCache::form_of(const KeptPlace& place) const {
  if (place.at.form == CacheForm::kResults) return "";
  if (place.keeps_records()) return kRecords;
  std::string form = kCoefficients;
  for (const std::size_t field : place.packed) form += " " + pipeline_->fields()[field].spec.name;
  return form;
}

/// The files of samples of a place. What they are is said by their form, the ops before them with their versions, in the
/// order that runs, the codecs, and the fields that the ops take.
std::shared_ptr<const KeptFiles> StreamCache::open_files(const KeptPlace& place) const {
  if (!options_.identities || !options_.identities->reason().empty()) return std::make_shared<KeptFiles>();
  Hasher128 hasher;
  const std::size_t ops = place.at.ops;
  hasher.update(std::string_view("carya samples 1"));
  if (const std::string form = form_of(place); !form.empty()) hasher.update(std::string_view(form));
  Json names = Json::array();
  for (std::size_t i = 0; i < ops; ++i) {
    const transforms::Op& op = *pipeline_->ops()[order_[i]];
    // What a library of the user's own does may change under its name.
    if (op.traits().kind == transforms::OpKind::kUser && transforms::as_transcode(op) == nullptr)
      return std::make_shared<KeptFiles>();
    hash_op(hasher, op);
    names.push_back(Json::parse(op.json()));
  }
  if (!place.keeps_records())
    for (const std::string& codec : transforms::codec_versions()) hasher.update(std::string_view(codec));
  for (const transforms::SourceField& field : pipeline_->fields()) {
    hasher.update(static_cast<std::uint64_t>(field.kind));
    hasher.update(std::string_view(field.spec.name));
    hasher.update(std::string_view(field.spec.to_string()));
  }
  const std::string about =
      Json{{"version", 1}, {"after", label_of(ops)}, {"ops", std::move(names)}, {"form", form_name(place.at)}}
          .dump();
  std::vector<std::shared_ptr<FileTier>> tiers;
  for (const auto& [kind, folder] :
       {std::pair{TierKind::kDisk, options_.cache.disk}, std::pair{TierKind::kShared, options_.cache.shared}})
    if (folder.bytes > 0)
      tiers.push_back(FileTier::open({.kind = kind,
                                      .folder = folder.path,
                                      .capacity_bytes = folder.bytes,
                                      .place = hasher.digest(),
                                      .about = about,
                                      .records = options_.records,
                                      .budget = options_.write_budget,
                                      .page_cache_bytes = shm::available_memory_bytes()}));
  const auto names_of = options_.identities;
  const auto check = [&](bool (RecordIdentities::*asks)(std::uint64_t) const) {
    return std::make_shared<const RecordCheck>(
        [names_of, asks](std::uint64_t source) { return ((*names_of).*asks)(source); });
  };
  return std::make_shared<KeptFiles>(
      std::move(tiers),
      RecordFacts{.identity = [names_of](std::uint64_t source) { return names_of->of(source); },
                  .may_take = check(&RecordIdentities::may_take),
                  .may_keep = check(&RecordIdentities::may_keep)});
}

/// Take the plan apart at a place. Returns false if it cannot be.
bool StreamCache::part_at(const CachePoint& at, KeptPlace& place) const {
  const transforms::PlanOptions whole{.seed = options_.seed, .fuse = options_.fuse, .order = order_};
  if (at.form != CacheForm::kResults) {
    auto parts = at.form == CacheForm::kRecords ? transforms::part_records(*pipeline_)
                                                : transforms::part_at_source(pipeline_, whole);
    if (!parts) return false;
    place.before = std::move(parts->before);
    place.behind = std::move(parts->behind);
    place.packed = std::move(parts->packed);
    return true;
  }
  transforms::PlanOptions before = whole, behind = whole;
  before.last = behind.first = at.ops;
  before.packed = behind.packed = true;
  auto first = transforms::Plan::compile(pipeline_, before);
  auto last = transforms::Plan::compile(pipeline_, behind);
  if (!first || !last) return false;
  place.before = std::move(*first);
  place.behind = std::move(*last);
  return true;
}

/// Keep samples at a place from now on; none: nowhere.
void StreamCache::turn_to(std::optional<CachePoint> at) {
  const auto now = place();
  why_ = at ? fmt::format("kept after {}: {:.0f} us per sample later, {:.0f} without", label_of(at->ops),
                          choice_.chosen.later_s * kMicro, choice_.all.front().later_s * kMicro)
            : fmt::format("nothing is kept: it would not pay in the {:.0f} epochs that are expected",
                          facts_.epochs_left);
  if (!options_.stores.empty())
    why_ += fmt::format("; reading a record from its store counts as {:.0f} us of money, {:.0f} of time",
                        read_.money_s * kMicro, std::max(read_.cpu_s, read_.wait_s) * kMicro);
  if (at == (now ? std::optional(now->at) : std::nullopt) || changes_ >= kChangesMax) return;
  std::shared_ptr<KeptPlace> next;
  if (at) {
    next = std::make_shared<KeptPlace>();
    next->order = order_;
    next->at = *at;
    if (!part_at(*at, *next)) return;  // places_now() has tried
    std::string names = form_of(*next);
    for (std::size_t i = 0; i < at->ops; ++i) names += pipeline_->ops()[order_[i]]->json();
    next->samples = shared_samples({options_.dataset, std::move(names)}, options_.records,
                                   options_.capacity_bytes, options_.budget);
    next->files = open_files(*next);
    next->bell = bell_;
  }
  ++changes_;
  const MutexLock lock(placing_);
  place_ = std::move(next);
}

void StreamCache::close() {
  std::shared_ptr<KeptPlace> kept;  // ends without the locks: files may take a moment
  const MutexLock lock(deciding_);
  ended_ = true;
  try {
    last_report_ = report_now();
  } catch (const std::bad_alloc&) {  // then figures are those of a stream that keeps nothing
  }
  const MutexLock placing(placing_);
  kept.swap(place_);
}

std::string StreamCache::report() const {
  const MutexLock lock(deciding_);
  return last_report_.empty() ? report_now() : last_report_;
}

std::string StreamCache::report_now() const {
  const auto kept = place();
  Json choices = Json::array();
  for (const autotune::CacheCost& cost : choice_.all) {
    const autotune::CachePlace* const at = cost.place ? &facts_.places[*cost.place] : nullptr;
    choices.push_back(
        {{"after", at ? Json(label_of(at->at.ops)) : Json(nullptr)},
         {"form", at ? Json(form_name(at->at)) : Json(nullptr)},
         {"bytes", at ? Json(at->bytes) : Json(nullptr)},
         {"share", cost.share},
         {"fill_us", at ? figure(at->fill_s) : Json(nullptr)},
         {"hit_us", at ? figure(at->hit_s) : Json(nullptr)},
         {"run_us", figure(cost.run_s)},
         {"later_us", figure(cost.later_s)},
         {"pays_back_epochs", cost.pays_back_epochs ? Json(*cost.pays_back_epochs) : Json(nullptr)}});
  }
  Json report{{"mode", options_.cache.mode == Mode::kAuto ? "auto" : "on"},
              {"after", kept ? Json(label_of(kept->at.ops)) : Json(nullptr)},
              {"form", kept ? Json(form_name(kept->at)) : Json(nullptr)},
              {"why", why_},
              {"capacity_bytes", capacity()},
              {"epochs_expected", facts_.epochs_left},
              {"sample_us", figure(facts_.sample_s)},
              {"expected_share", choice_.chosen.place ? choice_.chosen.share : 0},
              {"choices", std::move(choices)}};
  const SampleCacheStats stats = kept ? kept->samples->stats() : SampleCacheStats{};
  report["files"] = Json::array();
  for (std::size_t i = 0; kept && i < kept->files->tiers().size(); ++i)
    report["files"].push_back(
        tier_report(*kept->files->tiers()[i], kept->file_hits.at(i), kept->looked, facts_.sample_s));
  if (options_.identities && !options_.identities->reason().empty())
    report["no_files"] = options_.identities->reason();
  report["bytes"] = stats.bytes;
  report["limit_bytes"] = kept ? stats.limit_bytes : 0;
  report["asked_bytes"] = options_.capacity_bytes;
  report["bounded"] = options_.bounded;
  report["age_s"] = stats.age_s > 0 ? Json(stats.age_s) : Json(nullptr);
  report["records"] = stats.records;
  report["looked"] = kept ? kept->looked.load() : 0;
  report["hits"] = kept ? kept->hits.count() : 0;
  report["filled"] = stats.filled;
  report["given_up"] = stats.given_up;
  report["damaged_records"] = kept ? kept->damaged.load() : 0;
  report["admitted_share"] = kept ? stats.admitted_share : 0;
  const double hit_s = kept ? kept->hits.mean_s() : 0, fill_s = kept ? kept->fills.mean_s() : 0;
  report["read"] = nullptr;
  if (!options_.stores.empty())
    report["read"] = {{"cpu_us", read_.cpu_s * kMicro},
                      {"money_us", read_.money_s * kMicro},
                      {"wait_us", read_.wait_s * kMicro}};
  report["hit_us"] = figure(hit_s);
  report["fill_us"] = figure(fill_s);
  // Of what was timed here; until a sample without a cache was timed, nothing can be said.
  const double hits = kept ? static_cast<double>(kept->hits.count()) : 0;
  const double fills = kept ? static_cast<double>(kept->fills.count()) : 0;
  const double saved = hits * (facts_.sample_s - hit_s) - fills * (fill_s - facts_.sample_s);
  report["saved_cpu_s"] = hit_s > 0 && facts_.sample_s > 0 ? Json(saved) : Json(nullptr);
  return report.dump();
}

}  // namespace carya::loader
