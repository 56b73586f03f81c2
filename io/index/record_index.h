#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/index/record_fault.h"
#include "io/index/record_spec.h"

namespace carya::io {

/// Tensors of all records of a source together at most: they are kept in memory.
inline constexpr std::uint64_t kColumnBytesMax = std::uint64_t{4} << 30;

/// The records of one file: where each and its fields lie, and the values that were copied out. Builders fill
/// it record by record; what they do not say is an empty range at the record, label -1 and zeros.
///
/// Threads: const is thread-safe.
/// Cost:    16 B per record and per field of bytes, 8 per label, 24 per broken record, and the tensors.
class RecordIndex {
 public:
  explicit RecordIndex(const RecordSpec& spec);

  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  /// Room for so many records, as far as that is little memory: a guess, and no promise.
  void expect(std::uint64_t records);
  /// A new record. Errors: kExhausted: the tensors no longer fit kColumnBytesMax.
  Status begin(Range place);
  /// Of the last record, and a field of that kind.
  void set_range(std::size_t field, Range range) { ranges_[field].back() = range; }
  void set_label(std::int64_t label) { labels_.back() = label; }
  std::span<std::byte> row(std::size_t field) {
    const std::uint64_t bytes = row_bytes_[field];
    return {columns_[field].data() + columns_[field].size() - bytes, bytes};
  }
  /// The last record is broken, and none of its fields counts.
  void fail(Fault what, std::size_t field = 0, std::uint64_t got = 0);
  /// That some record has the field; and what the first record has, for people.
  void note_found(std::size_t field) { found_[field] = 1; }
  void describe(std::string text);

  std::uint64_t count() const { return places_.size(); }
  const std::vector<Range>& places() const { return places_; }
  const std::vector<Range>& ranges(std::size_t field) const { return ranges_[field]; }
  const std::vector<std::int64_t>& labels() const { return labels_; }  ///< empty without a label field
  const std::vector<std::byte>& column(std::size_t field) const { return columns_[field]; }
  const std::vector<RecordFault>& faults() const { return faults_; }  ///< ascending, one per record
  bool found(std::size_t field) const { return found_[field] != 0; }
  const std::string& description() const { return description_; }

  /// The stored form (FORMAT.md); `file_bytes` and `mtime_ns` are of the file.
  std::vector<std::byte> store(std::uint64_t file_bytes, std::int64_t mtime_ns) const;
  /// What store() wrote, checked as if anyone had written it. Errors: kCorrupt (damaged, of another spec or
  /// of another state of the file: the index is made anew).
  static Result<RecordIndex> load(std::span<const std::byte> image, const RecordSpec& spec,
                                  std::uint64_t file_bytes, std::int64_t mtime_ns);

 private:
  Status check(std::uint64_t file_bytes) const;

  RecordSpec spec_;
  std::vector<std::uint64_t> row_bytes_;  // of each field; 0 unless it is a tensor
  bool labelled_ = false;
  std::uint64_t column_bytes_ = 0;
  std::uint64_t record_column_bytes_ = 0;
  std::vector<Range> places_;
  std::vector<std::vector<Range>> ranges_;  // of each field; empty unless it is one of bytes
  std::vector<std::int64_t> labels_;
  std::vector<std::vector<std::byte>> columns_;  // of each field
  std::vector<RecordFault> faults_;
  std::vector<std::uint8_t> found_;
  std::string description_;
};

/// Whether the bytes are a stored index in itself, whatever its file and spec are; how many records it has.
Result<std::uint64_t> check_stored_index(std::span<const std::byte> image);

}  // namespace carya::io
