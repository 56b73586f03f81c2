#include "loader/data/sample.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <cerrno>

#include "base/unique_fd.h"
#include "io/files/open_failure.h"
#include "io/files/record_file.h"
#include "io/http/store_client.h"

namespace carya::loader {
namespace {

using Kind = transforms::SourceField::Kind;

}  // namespace

Result<std::vector<std::byte>> read_record(const io::Manifest& manifest, std::uint64_t index) {
  const io::RecordAddress address = manifest.record(index);
  const std::string path = io::record_path(manifest, index);
  if (const char* const pin = manifest.pin_c_str(index); pin != nullptr) {
    std::vector<std::byte> bytes(address.bytes + 64);
    ASSIGN(const auto client, io::StoreClient::shared());
    ASSIGN(const auto object, client->listed(path, manifest.object_bytes(index), pin));
    TRY(client->read(object, address.offset, std::span(bytes).first(address.bytes)));
    return bytes;
  }
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
      return fail(Code::kIo, fmt::format("read {}: wanted {} B, got {} B; the file changed: {}", path,
                                         address.bytes, done, io::kListAnew));
    done += static_cast<std::uint64_t>(got);
  }
  struct stat facts{};
  if (address.container == UINT32_MAX && fstat(file.get(), &facts) == 0 &&
      static_cast<std::uint64_t>(facts.st_size) != address.bytes)
    return fail(Code::kIo, fmt::format("read {}: it has {} B, the manifest says {} B; {}", path,
                                       facts.st_size, address.bytes, io::kListAnew));
  return bytes;
}

Result<SampleInputs> read_inputs(const Dataset& dataset, std::uint64_t record) {
  if (record >= dataset.count())
    return fail(Code::kInvalidArgument,
                fmt::format("sample: record: got {}; give 0 to {}", record, dataset.count() - 1));
  TRY(dataset.check_record(record));
  TRY(dataset.check_arrays());
  const std::uint64_t source = dataset.source_index(record);
  SampleInputs inputs;
  for (const Dataset::Field& field : dataset.fields()) {
    if (field.kind == Kind::kTensor) {
      inputs.spans.push_back(field.array.of(source));
    } else if (field.kind == Kind::kLabel) {
      inputs.labels.push_back(field.manifest->record(source).label);
      inputs.spans.push_back(std::as_bytes(std::span(&inputs.labels.back(), 1)));
    } else {
      ASSIGN(auto bytes, read_record(*field.manifest, source));
      inputs.files.push_back(std::move(bytes));
      inputs.spans.emplace_back(inputs.files.back().data(), field.manifest->record(source).bytes);
    }
  }
  std::uint32_t checked = UINT32_MAX;
  TRY(dataset.check_marks(record, checked));
  return inputs;
}

Result<std::vector<transforms::OwnedTensor>> compute_sample(const transforms::Plan& plan,
                                                            const Dataset& dataset, std::uint64_t record,
                                                            std::uint64_t epoch) {
  ASSIGN(const SampleInputs inputs, read_inputs(dataset, record));
  auto sample = plan.sample({.epoch = epoch, .record = record}, inputs.spans);
  if (!sample && sample.error().code == Code::kCorrupt) TRY(dataset.check_as_listed(record));
  return sample;
}

}  // namespace carya::loader
