#include "loader/data/store_sources.h"

#include <algorithm>
#include <utility>

#include "io/http/store_url.h"

namespace carya::loader {
namespace {

using Kind = transforms::SourceField::Kind;

constexpr std::uint64_t kRecordsLookedAt = 256;

/// The mean bytes of a field's records.
double mean_bytes(const Dataset& dataset, const Dataset::Field& field) {
  const std::uint64_t looked = std::min(dataset.count(), kRecordsLookedAt);
  double bytes = 0;
  for (std::uint64_t i = 0; i < looked; ++i)
    bytes += static_cast<double>(
        field.manifest->record(dataset.source_index(i * (dataset.count() / looked))).bytes);
  return looked == 0 ? 0 : bytes / static_cast<double>(looked);
}

}  // namespace

StorePrices list_prices(std::string_view url) {
  if (url.starts_with("s3://") || url.starts_with("gs://")) return {.per_1000_requests = 0.0004};
  if (url.starts_with("az://")) return {.per_1000_requests = 0.0005};
  return {};
}

double mean_record_bytes(const Dataset& dataset) {
  double bytes = 0;
  for (const Dataset::Field& field : dataset.fields())
    if (field.kind == Kind::kEncoded) bytes += mean_bytes(dataset, field);
  return bytes;
}

std::shared_ptr<const StoreSources> StoreSources::create(std::shared_ptr<const Dataset> dataset,
                                                         std::uint64_t ranks, const StorePricesGiven& given,
                                                         const std::shared_ptr<io::StoreAccess>& access) {
  auto made = std::shared_ptr<StoreSources>(new StoreSources());
  for (const Dataset::Field& field : dataset->fields()) {
    made->of_field_.push_back(SIZE_MAX);
    if (field.kind != Kind::kEncoded || !io::has_scheme(field.manifest->root())) continue;
    const std::string source(io::place_of(field.manifest->root()));
    auto found =
        std::ranges::find(made->stores_, source, [](const Store& store) { return store.known.source; });
    if (found == made->stores_.end()) {
      StorePrices prices = list_prices(source);
      prices.per_1000_requests = given.per_1000_requests.value_or(prices.per_1000_requests);
      prices.per_gb = given.per_gb.value_or(prices.per_gb);
      made->stores_.push_back({.known = {.source = source, .prices = prices},
                               .use = {.tally = std::make_shared<io::StoreTally>(), .access = access}});
      found = made->stores_.end() - 1;
    }
    const std::uint64_t records = dataset->kept_count() / std::max<std::uint64_t>(1, ranks);
    found->known.epoch_records = records;
    found->known.epoch_reads += records;
    found->known.epoch_bytes +=
        static_cast<std::uint64_t>(mean_bytes(*dataset, field) * static_cast<double>(records));
    made->of_field_.back() = static_cast<std::size_t>(found - made->stores_.begin());
  }
  if (made->stores_.empty()) return nullptr;
  made->dataset_ = std::move(dataset);
  return made;
}

std::vector<StoreFigures> StoreSources::figures() const {
  std::vector<StoreFigures> all;
  for (const auto& [known, use] : stores_) {
    const auto& tally = use.tally;
    StoreFigures store = known;
    store.requests = tally->requests;
    store.bytes = tally->bytes;
    store.reads = tally->reads;
    store.failed = tally->failed;
    store.throttled = tally->throttled;
    store.hedged = tally->hedged;
    store.answered = tally->answered;
    store.answered_ns = tally->answered_ns;
    store.cpu_ns = tally->cpu_ns;
    store.allowed = tally->allowed;
    all.push_back(std::move(store));
  }
  return all;
}

}  // namespace carya::loader
