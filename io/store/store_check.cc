#include "io/store/store_check.h"

#include "io/store/record_table.h"
#include "io/store/store_scan.h"

namespace carya::io {

Result<StoreCheck> check_store_file(const StoreFile& file) {
  StoreCheck check{.identity = identity_of(file.header)};
  ASSIGN(check.file_bytes, file.bytes());
  ASSIGN(RecordTable table, RecordTable::create(check.identity.record_count));
  const ScanFrom from{
      .salt = file.header.salt, .record_count = check.identity.record_count, .file_bytes = check.file_bytes};
  const auto found = [&](std::uint64_t record, std::uint64_t offset, std::uint32_t bytes) {
    ++check.entries_valid;
    if (!table.put(record, {.offset = offset, .bytes = bytes})) ++check.records;
  };
  ASSIGN(const ScanEnd end, scan_entries(file.fd.get(), from, found));
  check.damaged_count = end.damaged_count;
  check.damaged_bytes = end.damaged_bytes;
  if (end.offset < check.file_bytes) {  // a torn tail, or an entry that is being written just now
    ++check.damaged_count;
    check.damaged_bytes += check.file_bytes - end.offset;
  }
  return check;
}

}  // namespace carya::io
