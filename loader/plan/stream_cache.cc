#include "loader/plan/stream_cache.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "loader/plan/cache_places.h"
#include "loader/plan/cache_report.h"
#include "loader/plan/order_choice.h"
#include "shm/memory_limit.h"
#include "transforms/ops/encoded/transcode.h"
#include "transforms/plan/source_parts.h"

namespace carya::loader {
namespace {

using autotune::CacheForm;
using autotune::CachePoint;
using autotune::CacheStorage;
using Json = nlohmann::json;
using Form = CacheOptions::Form;
using Mode = CacheOptions::Mode;

/// A place that was measured and does not pay is left; then others are tried, but not for ever.
constexpr int kChangesMax = 4;
/// What was left is not turned back to for so long unless that saves more. Source: as for workers (autotune/README.md).
constexpr std::int64_t kUndoNs = 600'000'000'000;
/// Samples that were asked for are kept as if the run were long.
constexpr double kManyEpochs = 100;
/// A smaller share of samples that were there already is not said.
constexpr double kSaidShare = 0.005;
constexpr double kUs = 1e6;
/// So many records are looked for in files, to know how many are there: to a twentieth.
constexpr std::size_t kCensusRecords = 512;
constexpr std::int64_t kCensusEveryNs = 60'000'000'000;

}  // namespace

StreamCache::StreamCache(std::shared_ptr<const transforms::Pipeline> pipeline,
                         const StreamCacheOptions& options)
    : pipeline_(std::move(pipeline)), options_(options), epoch_(options.epoch) {}

Result<std::shared_ptr<StreamCache>> StreamCache::create(std::shared_ptr<const transforms::Pipeline> pipeline,
                                                         const StreamCacheOptions& options,
                                                         std::vector<std::size_t> order,
                                                         const PlanProfile& profile) {
  auto made = std::shared_ptr<StreamCache>(new StreamCache(std::move(pipeline), options));
  const MutexLock lock(made->deciding_);
  made->order_ = std::move(order);
  made->storages_.emplace(options.cache, options.write_budget, profile.storages, options.threads);
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
    ASSIGN(const std::size_t ops, named_place(cache_places(pipeline_, order_)));
    if (options_.capacity_bytes > 0 || !place_groups(*pipeline_, order_, ops)) return {};
    return fail(Code::kInvalidArgument,
                fmt::format("cache: after: got \"{}\", behind which samples are kept in memory only, since "
                            "reuse_augmentation makes others after some epochs; give \"memory\" too",
                            asked.after));
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
  return place_label(*pipeline_, order_, ops);
}

/// Made once of each place in the present order.
const PlaceNames& StreamCache::names_of(const CachePoint& at) const {
  auto found = names_.find(at);
  if (found == names_.end()) found = names_.emplace(at, place_names(pipeline_, order_, at)).first;
  return found->second;
}

/// The place behind the op that the options name.
Result<std::size_t> StreamCache::named_place(const std::vector<std::size_t>& places) const {
  const std::string& name = options_.cache.after;
  std::string found, random;
  for (std::size_t ops = 1; ops <= order_.size(); ++ops) {
    const bool may = std::ranges::find(places, ops) != places.end();
    if (may && label_of(ops) == name) return ops;
    if (may) found += (found.empty() ? "\"" : ", \"") + label_of(ops) + "\"";
    if (random.empty() && !can_keep_behind(*pipeline_, order_[ops - 1])) random = label_of(ops);
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

std::shared_ptr<KeptPlace> StreamCache::place_of(std::uint64_t epoch) const {
  const MutexLock lock(placing_);
  return place_ && place_->holds(epoch) ? place_ : nullptr;
}

/// The samples of a period that is over hold memory until the last chunk of all streams that have them is done, and each
/// look() has let go of them. Where the new ones can have no other, nothing is kept meanwhile.
void StreamCache::enter(std::uint64_t epoch) {
  epoch_.store(epoch, std::memory_order_relaxed);
  const MutexLock lock(placing_);
  if (!place_ || (place_->holds(epoch) && !waits_)) return;
  // What needs memory comes first: where there is none, the next call finds everything as it was.
  if (!place_->holds(epoch)) {
    const SampleCacheOptions nothing{.records = options_.records,
                                     .available_bytes = [] { return std::uint64_t{0}; }};
    auto next = of_period(*place_, epoch, std::make_shared<SampleCache>(nothing));
    SharedSamplesKey key = key_of(place_->name, place_->order, place_->at, epoch);
    retired_.reserve(retired_.size() + 1);
    if (!waits_) leaving_ = place_->samples;
    retired_.push_back(std::exchange(place_, std::move(next)));
    period_key_ = std::move(key);
    waits_ = true;
  }
  if (options_.budget && !leaving_.expired() && options_.budget->left() < options_.capacity_bytes &&
      !find_shared_samples(period_key_))
    return;
  place_ = of_period(*place_, epoch,
                     shared_samples(period_key_, options_.records, options_.capacity_bytes, options_.budget));
  waits_ = false;
}

/// Let go of the samples of periods that are over and that no chunk has any more. It may take seconds to give so much
/// memory back, so it is done without a lock: others ask for reports meanwhile.
void StreamCache::drop_retired() {
  std::vector<std::shared_ptr<KeptPlace>> unused;  // ends without the lock
  const MutexLock lock(placing_);
  const auto is_used = [](const auto& place) { return place.use_count() > 1; };
  const auto first = std::ranges::partition(retired_, is_used).begin();
  unused.assign(std::make_move_iterator(first), std::make_move_iterator(retired_.end()));
  retired_.erase(first, retired_.end());
}

/// What is kept behind ops of this name, in the epochs that have the same.
SharedSamplesKey StreamCache::key_of(const std::string& ops_name, std::span<const std::size_t> order,
                                     const CachePoint& at, std::uint64_t epoch) const {
  const EpochGroups* const groups = place_groups(*pipeline_, order, at.ops);
  if (!groups) return {options_.dataset, ops_name};
  return {options_.dataset,
          ops_name + drawn_name(*pipeline_, order, at.ops, options_.seed, groups->first(epoch))};
}

bool StreamCache::ask() {
  if (asked_.load(std::memory_order_relaxed) || monotonic_ns() < look_ns_.load(std::memory_order_relaxed))
    return false;
  return !asked_.exchange(true);
}

void StreamCache::look(const PlanProfile& known, const std::vector<std::size_t>& order, const Seen& seen) {
  look_after(std::min(2 * gap_ns_.load(), kLookEveryNs));
  asked_ = false;
  drop_retired();
  const MutexLock lock(deciding_);
  if (ended_) return;
  if (const auto kept = place()) {
    kept->samples->look();
    kept->files->look();
  }
  // Never the order of another stream, which may have other bits. What is kept belongs to the order of its place.
  if (!place() && order_ != order) order_ = order, names_.clear();
  has_jpegs_ = seen.has_jpegs;
  if (storages_->look(place().get(), unix_s())) {
    changes_ = 0;
    left_.reset();
  }
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
  facts->ranks = static_cast<double>(options_.ranks);
  facts->epoch = static_cast<double>(epoch);
  facts->capacity_bytes = static_cast<double>(room());
  correct(*facts, known);
  find_kept(*facts);
  if (!asked_for) measure_storages(*facts);
  count_files(*facts);
  add_tiers(*facts);
  // What others keep already is worth what this run has of it, also where samples are kept whether it pays or not.
  const bool others_keep =
      !place() && std::ranges::any_of(facts->places, [](const auto& place) { return place.kept > 0; });
  facts->epochs_left = asked_for && !others_keep
                           ? kManyEpochs
                           : autotune::expected_epochs(options_.epochs, static_cast<double>(epoch));
  pay_filled(*facts);
  const std::size_t now = choice_of(*facts, held_now());
  const bool undoes = left_ && monotonic_ns() - left_ns_ < kUndoNs;
  auto choice = autotune::choose_cache(
      *facts, {.present = now, .left = undoes ? std::optional(choice_of(*facts, *left_)) : std::nullopt});
  if (!choice) {
    why_ = "not decided: " + choice.error().message;
    return;
  }
  facts_ = *facts;
  choice_ = *choice;
  if (asked_for && now > 0) {
    choice_.chosen = choice_.all[now];
  } else if (asked_for && !choice_.chosen.place) {  // whether it pays or not
    const auto best = std::ranges::min_element(choice_.all.begin() + 1, choice_.all.end(), {},
                                               &autotune::CacheCost::later_s);
    if (best != choice_.all.end()) choice_.chosen = *best;
  }
  turn_to(choice_.chosen.place ? std::optional(held_by(facts_.places[*choice_.chosen.place])) : std::nullopt);
}

StreamCache::Held StreamCache::held_by(const autotune::CachePlace& place) {
  return {
      .at = place.at, .disk = place.uses(CacheStorage::kDisk), .shared = place.uses(CacheStorage::kShared)};
}

std::optional<StreamCache::Held> StreamCache::held_now() const {
  const auto kept = place();
  if (!kept) return std::nullopt;
  return Held{
      .at = kept->at, .disk = kept->uses(CacheStorage::kDisk), .shared = kept->uses(CacheStorage::kShared)};
}

/// Its number in CacheChoice::all.
std::size_t StreamCache::choice_of(const autotune::CacheInputs& facts,
                                   const std::optional<Held>& held) const {
  for (std::size_t i = 0; held && i < facts.places.size(); ++i)
    if (held_by(facts.places[i]) == *held) return i + 1;
  return 0;
}

/// Find out what is not known of the storages, at the sizes at hand.
void StreamCache::measure_storages(const autotune::CacheInputs& facts) {
  if (!options_.identities || !options_.identities->reason().empty() || facts.places.empty()) return;
  const auto [small, large] = std::ranges::minmax_element(facts.places, {}, &autotune::CachePlace::bytes);
  storages_->probe(place().get(), small->bytes, large->bytes, unix_s());
}

/// The memory of each place, and what is kept there already by whichever stream of this process.
void StreamCache::find_kept(autotune::CacheInputs& facts) const {
  for (autotune::CachePlace& place : facts.places) {
    double capacity = facts.capacity_bytes;
    if (const auto samples =
            find_shared_samples(key_of(names_of(place.at).memory, order_, place.at, epoch_))) {
      const SampleCacheStats there = samples->stats();
      const auto records = static_cast<double>(there.records);
      if (records > 0) place.bytes = static_cast<double>(there.bytes) / records;
      place.kept = std::min(1.0, records / facts.records);
      capacity = std::min(static_cast<double>(there.capacity_bytes),
                          there.admitted_share * facts.records * place.bytes);
    }
    place.tiers = {{.capacity_bytes = capacity}};
  }
}

/// Find out what lies in files that this stream does not use. Only one whose place is chosen once waits for that.
void StreamCache::count_files(const autotune::CacheInputs& facts) {
  const auto now = held_now();
  const bool asked_for = options_.cache.mode == Mode::kOn;
  if (!options_.identities || monotonic_ns() < count_ns_ || (now && (asked_for || now->disk || now->shared)))
    return;
  count_ns_ = monotonic_ns() + kCensusEveryNs;
  std::vector<Hash128> places;
  for (const autotune::CachePlace& place : facts.places)
    if (may_be_in_files(place.at)) places.push_back(names_of(place.at).files);
  if (places.empty()) return;
  const std::vector<Hash128> some = options_.identities->some(kCensusRecords);
  for (const CacheFolder* folder : {&options_.cache.disk, &options_.cache.shared})
    if (folder->bytes > 0) censuses_[folder->path] = FolderCensus::begin(folder->path, places, some);
  if (!asked_for) return;
  const std::int64_t until_ns = monotonic_ns() + FileTier::kOpenNs;
  for (const auto& [folder, census] : censuses_)
    census->wait(std::max<std::int64_t>(0, until_ns - monotonic_ns()));
}

/// Each place in memory alone, and with files behind it. What was asked for has the files that were.
void StreamCache::add_tiers(autotune::CacheInputs& facts) const {
  const bool asked_for = options_.cache.mode == Mode::kOn;
  const auto memory_bytes = static_cast<double>(shm::available_memory_bytes());
  std::vector<autotune::CachePlace> all;
  for (const autotune::CachePlace& place : facts.places) {
    std::vector<autotune::CacheTier> files;
    std::vector<double> kept;
    for (const auto& [storage, folder] : {std::pair{CacheStorage::kDisk, options_.cache.disk},
                                          std::pair{CacheStorage::kShared, options_.cache.shared}}) {
      if (folder.bytes == 0 || !may_be_in_files(place.at)) continue;
      if (asked_for)
        files.push_back({.capacity_bytes = static_cast<double>(folder.bytes), .storage = storage});
      else if (const auto tier = storages_->tier(storage, place.bytes, facts.records, memory_bytes))
        files.push_back(*tier);
      else
        continue;
      const auto census = censuses_.find(folder.path);
      kept.push_back(census == censuses_.end() ? 0
                                               : census->second->share(names_of(place.at).files).value_or(0));
    }
    const std::size_t sets = std::size_t{1} << files.size();
    for (std::size_t set = asked_for ? sets - 1 : 0; set < sets; ++set) {
      autotune::CachePlace& one = all.emplace_back(place);
      for (std::size_t i = 0; i < files.size(); ++i) {
        if ((set >> i & 1) == 0) continue;
        one.tiers.push_back(files[i]);
        one.kept = std::min(1.0, one.kept + kept[i]);
      }
    }
  }
  facts.places = std::move(all);
}

/// Whether what is not there yet is put there. What was asked for is for later runs too, and a place that has all that it
/// has room for makes good what it loses. Of a place with periods only the last epoch of each fills nothing.
bool StreamCache::pays_more(const autotune::CacheInputs& facts, const autotune::CachePlace& place) const {
  return options_.cache.mode == Mode::kOn || place.groups ||
         place.kept >= autotune::cache_share(facts, place) || autotune::pays_to_fill(facts, place);
}

/// What this stream's own place has, its files too. Filling goes on where that pays.
void StreamCache::pay_filled(autotune::CacheInputs& facts) {
  const auto kept = place();
  if (!kept) return;
  const auto held = held_now();
  for (autotune::CachePlace& place : facts.places) {
    if (place.at != kept->at) continue;
    auto records = static_cast<double>(kept->samples->stats().records);
    for (const auto& tier : kept->files->tiers())
      if (place.uses(storage_of(tier->options().kind)))
        records += static_cast<double>(tier->stats().store.entries);
    const double share = autotune::cache_share(facts, place);
    place.kept = std::min(share, std::max(place.kept, records / facts.records));
    if (held != held_by(place)) continue;
    kept->fills_more = pays_more(facts, place);
    if (kept->fills_more || !(place.kept > 0)) continue;
    const double all_bytes = facts.records * place.bytes;  // it stays with what it has
    for (autotune::CacheTier& tier : place.tiers)
      tier.capacity_bytes = std::min(tier.capacity_bytes, all_bytes) * place.kept / share;
  }
}

/// Put what was measured in the place of what the model says.
void StreamCache::correct(autotune::CacheInputs& facts, const PlanProfile& known) {
  if (const OrderProfile* const ran = known.find(order_); ran && ran->timed_samples() >= kTrustedSamples) {
    const double model_s = std::exchange(facts.sample_s, ran->cpu_ns() * 1e-9);
    for (autotune::CachePlace& place : facts.places) {  // a record is computed as a whole
      if (place.at.form != CacheForm::kRecords) continue;
      place.hit_s += facts.sample_s - model_s;
      place.fill_s += facts.sample_s - model_s;
    }
  }
  if (const auto kept = place()) {
    autotune::CachePlace& here = measured_[kept->at];
    if (const double bytes = kept->mean_bytes(); bytes > 0) here.bytes = bytes;
    if (const double hit_s = kept->hit_s(); hit_s > 0) here.hit_s = hit_s;
    if (const TimedSamples& fills = kept->figures->fills; fills.timed() >= kTrustedSamples)
      here.fill_s = fills.mean_s();
  }
  take_measured(facts, measured_);
}

/// The memory for samples of a place where nobody keeps any: what is left, and what this stream would give back.
std::uint64_t StreamCache::room() const {
  if (!options_.budget) return options_.capacity_bytes;
  const auto kept = place();
  const bool alone = kept && kept->samples.use_count() == 1;
  const std::uint64_t own = alone ? kept->samples->stats().capacity_bytes : 0;
  return std::min(options_.capacity_bytes, options_.budget->left() + own);
}

/// Whether samples of a place can be in files: the records have names, and nothing before it may change under its own.
bool StreamCache::may_be_in_files(const CachePoint& at) const {
  if (!options_.identities || !options_.identities->reason().empty()) return false;
  if (place_groups(*pipeline_, order_, at.ops)) return false;  // each period would write all anew
  for (std::size_t i = 0; i < at.ops; ++i) {
    const transforms::Op& op = *pipeline_->ops()[order_[i]];
    // What a library of the user's own does may be another thing later.
    if (op.traits().kind == transforms::OpKind::kUser && transforms::as_transcode(op) == nullptr)
      return false;
  }
  return true;
}

/// The files of samples of a place.
std::shared_ptr<const KeptFiles> StreamCache::open_files(const Held& held, const PlaceNames& names) const {
  if ((!held.disk && !held.shared) || !may_be_in_files(held.at)) return std::make_shared<KeptFiles>();
  std::vector<std::shared_ptr<FileTier>> tiers;
  for (const auto& [kind, folder, used] : {std::tuple{TierKind::kDisk, options_.cache.disk, held.disk},
                                           std::tuple{TierKind::kShared, options_.cache.shared, held.shared}})
    if (used)
      tiers.push_back(FileTier::open({.kind = kind,
                                      .folder = folder.path,
                                      .capacity_bytes = folder.bytes,
                                      .place = names.files,
                                      .about = names.about,
                                      .records = options_.records,
                                      .budget = options_.write_budget,
                                      .page_cache_bytes = shm::available_memory_bytes()}));
  const auto names_of = options_.identities;
  return std::make_shared<KeptFiles>(
      std::move(tiers),
      RecordFacts{.identity = [names_of](std::uint64_t source) { return names_of->of(source); },
                  .may_take = [names_of](std::uint64_t source) { return names_of->may_take(source); },
                  .may_keep = [names_of](std::uint64_t source) { return names_of->may_keep(source); },
                  .readers = [names_of](std::uint64_t source) { return names_of->readers(source); }});
}

/// Keep samples at a place from now on; none: nowhere.
void StreamCache::turn_to(const std::optional<Held>& held) {
  const auto now = held_now();
  const char* const beside = !held                        ? ""
                             : held->disk && held->shared ? ", in files of a disk and a shared folder too"
                             : held->disk                 ? ", in files of a disk too"
                             : held->shared               ? ", in files of a shared folder too"
                                                          : "";
  const EpochGroups* const groups = held ? place_groups(*pipeline_, order_, held->at.ops) : nullptr;
  const std::string anew =
      groups ? fmt::format(", anew every {} epochs", groups->end(epoch_) - groups->first(epoch_)) : "";
  why_ = held ? fmt::format("kept after {}{}{}: {:.0f} us per sample later, {:.0f} without",
                            label_of(held->at.ops), beside, anew, choice_.chosen.later_s * kUs,
                            choice_.all.front().later_s * kUs)
              : fmt::format("nothing is kept: it would not pay in the {:.0f} epochs that are expected",
                            facts_.epochs_left);
  const bool changes = held != now && changes_ < kChangesMax;
  if (changes) found_share_ = held ? facts_.places[*choice_.chosen.place].kept : 0;
  if (found_share_ >= kSaidShare)
    why_ += fmt::format("; {:.0f} % of the samples were there already", 100 * found_share_);
  if (!options_.stores.empty())
    why_ += fmt::format("; reading a record from its store counts as {:.0f} us of money, {:.0f} of time",
                        read_.money_s * kUs, std::max(read_.cpu_s, read_.wait_s) * kUs);
  if (!changes) return;
  std::shared_ptr<KeptPlace> next;
  if (held) {
    const CachePoint& at = held->at;
    const PlaceNames& names = names_of(at);
    const std::uint64_t epoch = epoch_;
    const SharedSamplesKey key = key_of(names.memory, order_, at, epoch);
    // What this stream alone keeps elsewhere comes back when its last chunk ends: until then it keeps nothing.
    const bool waits = now && now->at != at && options_.budget && options_.budget->left() < room() &&
                       !find_shared_samples(key);
    if (!waits) {
      next = std::make_shared<KeptPlace>();
      next->order = order_;
      next->at = at;
      next->name = names.memory;
      next->begin(groups, epoch);
      if (!part_plan(*next, pipeline_, {.seed = options_.seed, .fuse = options_.fuse, .order = order_}))
        return;  // places_now() has tried
      next->samples = shared_samples(key, options_.records, options_.capacity_bytes, options_.budget);
      next->files = open_files(*held, names);
      next->bell = bell_;
      next->fills_more = pays_more(facts_, facts_.places[*choice_.chosen.place]);
    }
  }
  if (next || !held) {
    ++changes_;
    look_after(kLookSoonNs);
  }
  left_ = now;
  left_ns_ = monotonic_ns();
  const MutexLock lock(placing_);
  place_.swap(next);
  waits_ = false;
}

void StreamCache::close() {
  std::shared_ptr<KeptPlace> kept;  // end without the locks: files may take a moment
  std::vector<std::shared_ptr<KeptPlace>> retired;
  const MutexLock lock(deciding_);
  ended_ = true;
  try {
    last_report_ = report_now();
  } catch (const std::bad_alloc&) {  // then figures are those of a stream that keeps nothing
  }
  const MutexLock placing(placing_);
  kept.swap(place_);
  retired.swap(retired_);
}

std::vector<StorageProfile> StreamCache::storages() const {
  const MutexLock lock(deciding_);
  return options_.cache.mode == Mode::kAuto ? storages_->known() : std::vector<StorageProfile>();
}

std::string StreamCache::report() const {
  const MutexLock lock(deciding_);
  return last_report_.empty() ? report_now() : last_report_;
}

std::string StreamCache::report_now() const {
  const auto kept = place();
  Json report = Json::parse(kept_report(kept.get(), facts_));
  report["mode"] = options_.cache.mode == Mode::kAuto ? "auto" : "on";
  report["after"] = kept ? Json(label_of(kept->at.ops)) : Json(nullptr);
  report["form"] = kept ? Json(form_name(kept->at)) : Json(nullptr);
  report["why"] = why_;
  report["found_share"] = kept ? found_share_ : 0;
  if (!kept) report["capacity_bytes"] = room();
  report["epochs_expected"] = facts_.epochs_left;
  report["expected_share"] = choice_.chosen.place ? choice_.chosen.share : 0;
  report["choices"] = Json::parse(choices_report(*pipeline_, order_, facts_, choice_));
  if (options_.identities && !options_.identities->reason().empty())
    report["no_files"] = options_.identities->reason();
  const auto sample = choice_.chosen.place    ? facts_.places[*choice_.chosen.place].bytes
                      : facts_.places.empty() ? options_.record_bytes
                                              : facts_.places.back().bytes;
  report["storages"] =
      options_.cache.mode == Mode::kAuto ? Json::parse(storages_->report(sample, unix_s())) : Json::array();
  report["asked_bytes"] = options_.capacity_bytes;
  report["bounded"] = options_.bounded;
  report["write_budget"] =
      options_.cache.write_bytes_per_day > 0 ? Json(options_.cache.write_bytes_per_day) : Json(nullptr);
  report["read"] = nullptr;
  if (!options_.stores.empty())
    report["read"] = {
        {"cpu_us", read_.cpu_s * kUs}, {"money_us", read_.money_s * kUs}, {"wait_us", read_.wait_s * kUs}};
  return report.dump();
}

}  // namespace carya::loader
