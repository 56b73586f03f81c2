#include "loader/data/sample.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>

#include "base/unique_fd.h"
#include "io/files/open_failure.h"
#include "io/files/record_file.h"

namespace carya::loader {
namespace {

using Kind = transforms::SourceField::Kind;

}  // namespace

Result<std::vector<std::byte>> read_record(const io::Manifest& manifest, std::uint64_t index) {
  const io::RecordAddress address = manifest.record(index);
  const std::string path = io::record_path(manifest, index);
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return io::fail_open(path, errno);
  std::vector<std::byte> bytes(address.bytes + 64);
  std::uint64_t done = 0;
  while (done < address.bytes) {
    const ssize_t got = pread(file.get(), bytes.data() + done, address.bytes - done,
                              static_cast<off_t>(address.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read " + path, errno);
    if (got == 0)
      return fail(Code::kIo, "read " + path + ": wanted " + std::to_string(address.bytes) + " B, got " +
                                 std::to_string(done) + " B; the file changed: " + io::kListAnew);
    done += static_cast<std::uint64_t>(got);
  }
  struct stat facts{};
  if (address.container == UINT32_MAX && fstat(file.get(), &facts) == 0 &&
      static_cast<std::uint64_t>(facts.st_size) != address.bytes)
    return fail(Code::kIo, "read " + path + ": it has " + std::to_string(facts.st_size) +
                               " B, the manifest says " + std::to_string(address.bytes) + " B; " +
                               io::kListAnew);
  return bytes;
}

Result<std::vector<transforms::OwnedTensor>> compute_sample(const transforms::Plan& plan,
                                                            const Dataset& dataset, std::uint64_t record,
                                                            std::uint64_t epoch) {
  if (record >= dataset.count())
    return fail(Code::kInvalidArgument, "sample: record: got " + std::to_string(record) + "; give 0 to " +
                                            std::to_string(dataset.count() - 1));
  TRY(dataset.check_record(record));
  TRY(dataset.check_arrays());
  const std::uint64_t source = dataset.source_index(record);
  std::deque<std::vector<std::byte>> files;
  std::deque<std::int64_t> labels;
  std::vector<std::span<const std::byte>> inputs;
  for (const Dataset::Field& field : dataset.fields()) {
    if (field.kind == Kind::kTensor) {
      inputs.emplace_back(field.array.data + source * field.array.row_bytes, field.array.row_bytes);
    } else if (field.kind == Kind::kLabel) {
      labels.push_back(field.manifest->record(source).label);
      inputs.push_back(std::as_bytes(std::span(&labels.back(), 1)));
    } else {
      ASSIGN(auto bytes, read_record(*field.manifest, source));
      files.push_back(std::move(bytes));
      inputs.emplace_back(files.back().data(), field.manifest->record(source).bytes);
    }
  }
  auto sample = plan.sample({.epoch = epoch, .record = record}, inputs);
  if (!sample && sample.error().code == Code::kCorrupt) TRY(dataset.check_as_listed(record));
  return sample;
}

}  // namespace carya::loader
