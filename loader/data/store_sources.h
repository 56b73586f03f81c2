#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/http/store_tally.h"
#include "loader/data/dataset.h"

namespace carya::loader {

/// What a store charges, in $.
struct StorePrices {
  double per_1000_requests = 0;
  double per_gb = 0;  ///< 10^9 bytes
  bool operator==(const StorePrices&) const = default;
};

/// What a user says of the prices; what is not given is list_prices().
struct StorePricesGiven {
  std::optional<double> per_1000_requests{}, per_gb{};
};

/// The list prices of reading an object of a cloud's standard class; 0 for other servers. Bytes are those of machines in
/// the bucket's region, which none of the three charges for.
///
/// Source, read as of 2025, for the user to correct: aws.amazon.com/s3/pricing (us-east-1), cloud.google.com/storage/pricing
/// (us-central1, Class B operations), azure.microsoft.com/pricing/details/storage/blobs (Hot, LRS, East US).
StorePrices list_prices(std::string_view url);

/// Figures of one store for stats(): how much a stream asked of it so far.
struct StoreFigures {
  std::string source;  ///< "s3://bucket" (io::place_of())
  std::uint64_t requests = 0, bytes = 0, reads = 0, failed = 0, throttled = 0, hedged = 0, answered = 0;
  std::int64_t answered_ns = 0, cpu_ns = 0;
  std::uint32_t allowed = 0;
  std::uint64_t epoch_records = 0;  ///< of this rank
  std::uint64_t epoch_reads = 0;    ///< for these, in an epoch for which nothing is kept
  std::uint64_t epoch_bytes = 0;    ///< of those reads
  StorePrices prices{};

  /// $ of what was asked.
  double cost() const {
    return static_cast<double>(requests) * prices.per_1000_requests * 1e-3 +
           static_cast<double>(bytes) * prices.per_gb * 1e-9;
  }
};

/// The stores that a dataset's records lie in, and what one stream asks of them. Threads: thread-safe.
class StoreSources {
 public:
  /// Null if the dataset has no URLs. `ranks`: among which an epoch is divided. `access`: how the stores are asked; null:
  /// as this process does.
  static std::shared_ptr<const StoreSources> create(std::shared_ptr<const Dataset> dataset,
                                                    std::uint64_t ranks, const StorePricesGiven& given,
                                                    const std::shared_ptr<io::StoreAccess>& access = nullptr);

  /// How the store of a field is asked, and where that is counted; null: it is in no store.
  const io::StoreUse* use(std::size_t field) const {
    return of_field_[field] < stores_.size() ? &stores_[of_field_[field]].use : nullptr;
  }
  std::vector<StoreFigures> figures() const;

 private:
  struct Store {
    StoreFigures known;
    io::StoreUse use;
  };
  StoreSources() = default;

  std::shared_ptr<const Dataset> dataset_;  // for who keeps this object in its place
  std::vector<Store> stores_;
  std::vector<std::size_t> of_field_;  // index in stores_; SIZE_MAX: none
};

/// The mean bytes of a dataset's records that are read, of a few hundred of them.
double mean_record_bytes(const Dataset& dataset);

}  // namespace carya::loader
