#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "io/http/store_access.h"
#include "io/rights/readers.h"
#include "loader/data/dataset.h"

namespace carya::loader {

/// Names for the records of a dataset that outlive the process and the listing: of a record's paths, its place in its
/// file, size and time of change of the file, and labels. A file that changes has another name for its records, and the
/// other records keep theirs.
///
/// Records with large arrays, and those of listings that keep no times, have no such names. Threads: thread-safe; the
/// checks may wait for storage.
class RecordIdentities {
 public:
  /// Made before any record of the stream is read. `lent`: how the stores of URLs are asked, which tells apart who answers
  /// for them (io::StoreTerms::key()); null: as this process does.
  explicit RecordIdentities(std::shared_ptr<const Dataset> dataset,
                            const std::shared_ptr<io::StoreAccess>& lent = nullptr);

  /// Why there are no names; "" if there are.
  const std::string& reason() const { return reason_; }
  /// The name of a record, by its index in the source; none if its file has no version.
  /// Of URLs, which clients choose, by a hash for which nobody finds two that are alike (SHA-256).
  std::optional<Hash128> of(std::uint64_t source) const;
  /// The names of so many records of the dataset, or of all, evenly spread: to find out how many of them files have.
  std::vector<Hash128> some(std::size_t most) const;
  /// Whether the record's files are as they were listed and this user may read them; asked once for each record.
  bool may_take(std::uint64_t source) const;
  /// Whether bytes that were read since this object was made are those of the version that was listed: the files are as
  /// they were, and were not changed so shortly before that a second change would show the same time.
  bool may_keep(std::uint64_t source) const;
  /// Who else may read all that the record is made of: its files, as their modes are now, or anybody where a store is asked
  /// without credentials. Nobody where the program gave some of it (Dataset::has_given_fields()).
  io::Readers readers(std::uint64_t source) const;

 private:
  template <typename Hasher>
  bool add(std::uint64_t source, Hasher& hasher) const;

  const std::shared_ptr<const Dataset> dataset_;
  const std::int64_t made_ns_;        // of the clock that files have
  std::vector<std::uint64_t> roots_;  // a hash of the folder that the paths of each field are below
  std::vector<std::string> places_;  // of each field with URLs: what they are below, and who answers; else ""
  bool in_stores_ = false;           // there is such a field
  bool for_anybody_ = true;          // all such fields are asked for without credentials
  std::string reason_;
  mutable io::ReadersOfFiles files_;
  mutable std::vector<std::atomic<std::uint8_t>> taken_;  // 1: was as listed
};

}  // namespace carya::loader
