#include "loader/plan/cache_report.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "loader/plan/place_names.h"

namespace carya::loader {
namespace {

using autotune::CacheStorage;
using Json = nlohmann::json;

Json microseconds(double seconds) {
  return seconds > 0 ? Json(seconds * 1e6) : Json(nullptr);
}

/// What a tier of files did. `sample_s`: CPU seconds of a sample for which nothing is kept.
Json tier_report(const KeptPlace& place, std::size_t number, double sample_s) {
  const FileTier& tier = *place.files->tiers()[number];
  const TimedSamples& hits = place.figures->file_hits.at(number);
  const std::uint64_t looked = place.figures->looked;
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
          {"hit_us", microseconds(hits.mean_s())},
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
                        ? Json(std::max(0.0, static_cast<double>(unix_s()) - stats.store.oldest_s))
                        : Json(nullptr)},
          {"open", stats.is_open},
          {"read_cpu_s", stats.read_cpu_s},
          {"write_cpu_s", stats.write_cpu_s},
          {"saved_cpu_s", hits.timed() > 0 && sample_s > 0 ? Json(saved) : Json(nullptr)},
          {"trouble", stats.trouble.empty() ? Json(nullptr) : Json(stats.trouble)},
          {"troubles", stats.troubles}};
}

}  // namespace

std::string choices_report(const transforms::Pipeline& pipeline, std::span<const std::size_t> order,
                           const autotune::CacheInputs& facts, const autotune::CacheChoice& choice) {
  Json choices = Json::array();
  for (const autotune::CacheCost& cost : choice.all) {
    const autotune::CachePlace* const at = cost.place ? &facts.places[*cost.place] : nullptr;
    choices.push_back(
        {{"after", at ? Json(place_label(pipeline, order, at->at.ops)) : Json(nullptr)},
         {"form", at ? Json(form_name(at->at)) : Json(nullptr)},
         {"bytes", at ? Json(at->bytes) : Json(nullptr)},
         {"disk", at && at->uses(CacheStorage::kDisk)},
         {"shared", at && at->uses(CacheStorage::kShared)},
         {"period_epochs", at && at->groups ? Json(autotune::group_epochs(facts, *at)) : Json(nullptr)},
         {"share", cost.share},
         {"kept_share", at ? at->kept : 0},
         {"written_bytes", cost.written_bytes * facts.records},
         {"fill_us", at ? microseconds(at->fill_s) : Json(nullptr)},
         {"hit_us", at ? microseconds(at->hit_s) : Json(nullptr)},
         {"run_us", microseconds(cost.run_s)},
         {"later_us", microseconds(cost.later_s)},
         {"pays_back_epochs", cost.pays_back_epochs ? Json(*cost.pays_back_epochs) : Json(nullptr)}});
  }
  return choices.dump();
}

std::string kept_report(const KeptPlace* kept, const autotune::CacheInputs& facts) {
  const SampleCacheStats stats = kept ? kept->samples->stats() : SampleCacheStats{};
  Json files = Json::array();
  for (std::size_t i = 0; kept && i < kept->files->tiers().size(); ++i)
    files.push_back(tier_report(*kept, i, facts.sample_s));
  const KeptFigures none;
  const KeptFigures& figures = kept ? *kept->figures : none;
  const double hit_s = figures.hits.mean_s(), fill_s = figures.fills.mean_s();
  // Of what was timed here; until a sample without a cache was timed, nothing can be said.
  const double hits = static_cast<double>(figures.hits.count());
  const double fills = static_cast<double>(figures.fills.count());
  const double saved = hits * (facts.sample_s - hit_s) - fills * (fill_s - facts.sample_s);
  const Json report{{"period_epochs", kept && kept->groups ? Json(kept->period()) : Json(nullptr)},
                    {"files", std::move(files)},
                    {"fills_more", kept && kept->fills_more},
                    {"capacity_bytes", stats.capacity_bytes},
                    {"limit_bytes", kept ? stats.limit_bytes : 0},
                    {"bytes", stats.bytes},
                    {"records", stats.records},
                    {"age_s", stats.age_s > 0 ? Json(stats.age_s) : Json(nullptr)},
                    {"looked", figures.looked.load()},
                    {"hits", figures.hits.count()},
                    {"filled", stats.filled},
                    {"given_up", stats.given_up},
                    {"damaged_records", kept ? kept->damaged.load() : 0},
                    {"admitted_share", kept ? stats.admitted_share : 0},
                    {"sample_us", microseconds(facts.sample_s)},
                    {"hit_us", microseconds(hit_s)},
                    {"fill_us", microseconds(fill_s)},
                    {"saved_cpu_s", hit_s > 0 && facts.sample_s > 0 ? Json(saved) : Json(nullptr)}};
  return report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace carya::loader
