#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "io/files/marked_files.h"
#include "io/manifest/manifest.h"
#include "io/sources/record_files.h"
#include "loader/data/drawn_order.h"
#include "loader/data/mapped_file.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// The limit of a record's encoded bytes. A longer record is broken: no image within the limits of `decode_image` needs
/// as many bytes, and a sparse file could claim any size.
inline constexpr std::uint64_t kEncodedBytesMax = 1 << 30;

/// The rows of a field that is in memory already (an `arrays` source, or arrays beside files). The caller owns the
/// memory, which outlives the dataset.
struct ArrayMemory {
  const std::byte* data = nullptr;
  std::uint64_t row_bytes = 0;
  std::uint64_t rows = 0;
  std::shared_ptr<const MappedFile> file{};  ///< the file behind the memory, if there is one
  /// Where the rows of each record begin, with the end of the last one; null: each record has one. Checked when the
  /// dataset is opened.
  const std::int64_t* offsets = nullptr;

  /// The bytes of a record.
  std::span<const std::byte> of(std::uint64_t record) const {
    if (offsets == nullptr) return {data + record * row_bytes, row_bytes};
    const auto begin = static_cast<std::uint64_t>(offsets[record]);
    return {data + begin * row_bytes, (static_cast<std::uint64_t>(offsets[record + 1]) - begin) * row_bytes};
  }
};

/// The key in DatasetOptions::arrays of the offsets of a field whose records differ in their number of rows: int64, one
/// more than records.
inline std::string offsets_key(const std::string& field) {
  return field + ".offsets";
}

/// The keys in DatasetOptions::arrays of what a pipeline's "records" object names, which are the names of no field: the
/// records that are kept (uint64, rising), and the sums of the weights up to each record (int64).
inline constexpr const char* kKeptKey = ":kept";
inline constexpr const char* kDrawnKey = ":drawn";

struct DatasetOptions {
  std::map<std::string, ArrayMemory> arrays;  ///< by field, their offsets, and what the keys above say
  io::ListingOptions listing;
};

/// A pipeline's open source with its views applied: records 0..count-1, each with the inputs of its fields, and which of
/// them streams go through.
/// Threads: const is thread-safe.
class Dataset {
 public:
  /// Open the source of a pipeline. Errors: those of the listing; kInvalidArgument (arrays are missing or have another
  /// size, a subset's index is out of range).
  static Result<std::shared_ptr<const Dataset>> open(const transforms::Pipeline& pipeline,
                                                     const DatasetOptions& options);

  /// The same, but that streams go through these records only, each of which keeps its number, its address and its random
  /// numbers. `records` rise. Errors: kInvalidArgument (none, one that does not rise, one that there is not).
  Result<std::shared_ptr<const Dataset>> keep(std::vector<std::uint64_t> records) const;

  /// The same, whose streams have at each position the record that `order` draws of those that they go through. Errors:
  /// kInvalidArgument, if it is an order of another number of records.
  Result<std::shared_ptr<const Dataset>> draw(DrawnOrder order) const;

  /// The same, whose streams go through the records as the "records" object of a pipeline says. Errors: kInvalidArgument
  /// (numbers are missing, or are none of this dataset).
  Result<std::shared_ptr<const Dataset>> choose(const transforms::Pipeline& pipeline,
                                                const DatasetOptions& options) const;

  std::uint64_t count() const { return count_; }
  /// How many records a stream goes through in an epoch, and the record at an index below that: all, unless keep() has
  /// chosen.
  std::uint64_t kept_count() const { return kept_.empty() ? count_ : kept_.size(); }
  std::uint64_t kept_record(std::uint64_t index) const { return kept_.empty() ? index : kept_[index]; }
  const std::optional<DrawnOrder>& drawn() const { return drawn_; }
  /// Positions of an epoch.
  std::uint64_t positions() const { return drawn_ ? drawn_->positions() : kept_count(); }
  Hash128 fingerprint() const { return fingerprint_; }
  const std::vector<std::string>& class_names() const;
  const io::ListingReport& report() const { return report_; }

  /// One per field of the pipeline, in its order.
  struct Field {
    transforms::SourceField::Kind kind;
    std::shared_ptr<const io::Manifest> manifest;  ///< kEncoded (also carries the labels for kLabel)
    ArrayMemory array;                             ///< kTensor
  };
  const std::vector<Field>& fields() const { return fields_; }
  /// The record's index in the source, before the views.
  std::uint64_t source_index(std::uint64_t record) const { return view_.empty() ? record : view_[record]; }
  /// -1 where a record has none, or one that is not an integer.
  std::int64_t label(std::uint64_t record) const;
  /// Whether records have one.
  bool has_labels() const;
  /// Errors: kCorrupt for a record that is broken whatever its bytes are. It has an encoded field of more than
  /// kEncodedBytesMax or one that is not there, a label that is not an integer, or a fault that was found when its file
  /// was indexed.
  Status check_record(std::uint64_t record) const;
  /// Errors: kIo if a file (or tar) of the record is not the one that was listed; see io/files/record_file.h.
  Status check_as_listed(std::uint64_t record) const;
  /// Errors: kIo if a file behind an array is not what it was.
  Status check_arrays() const;
  /// Asked behind each read of a record of a `ranges` source. Errors: kIo if its file is not the one in which it was
  /// found. `checked`: the file that was asked about last, UINT32_MAX before, which is not asked about again.
  Status check_marks(std::uint64_t record, std::uint32_t& checked) const;
  /// Whether records have what the program gave beside files: arrays, and labels that are not of the files' own listing.
  bool has_given_fields() const { return has_given_fields_; }
  /// The files of a `ranges` source, by the manifests' containers; else null.
  const io::MarkedFiles* marked_files() const { return marked_.get(); }
  /// The address of the first encoded field, or of the whole record if it has none. Its path is relative to the
  /// manifest's root. Empty for arrays.
  io::RecordAddress address(std::uint64_t record) const;
  /// The path, with its root, of the file (or tar) at address(), which a person can open. Empty for arrays.
  std::string path(std::uint64_t record) const;

 private:
  Result<ArrayMemory> open_array(const transforms::SourceField& field, const DatasetOptions& options) const;
  Status open_source(const transforms::Pipeline& pipeline, const DatasetOptions& options);
  Result<std::vector<std::shared_ptr<const io::Manifest>>> open_ranges(const transforms::Pipeline& pipeline,
                                                                       const DatasetOptions& options);
  Status apply_views(const std::string& views_json);
  void make_fingerprint(const transforms::Pipeline& pipeline);
  bool broken_label(const io::RecordAddress& address) const;
  /// The manifest of address(); null for arrays.
  const io::Manifest* addressed() const;

  std::uint64_t count_ = 0;
  std::vector<Field> fields_;
  std::shared_ptr<const io::RecordSource> records_;  // of files of records; its columns are fields' arrays
  std::shared_ptr<const io::MarkedFiles> marked_;    // of ranges of files
  bool in_ranges_ = false;                           // of files or of objects
  bool has_given_fields_ = false;
  std::vector<std::uint64_t> view_;  // source index of each record; empty for all in order
  std::vector<std::uint64_t> kept_;  // records that streams go through; empty for all
  std::optional<DrawnOrder> drawn_;  // none: each comes once
  Hash128 fingerprint_;
  io::ListingReport report_;
};

}  // namespace carya::loader
