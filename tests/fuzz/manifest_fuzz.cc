// Any bytes are a manifest or kCorrupt; what is taken can be read everywhere.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "io/manifest/manifest_builder.h"
#include "io/manifest/manifest_image.h"

namespace {

void read_all(const carya::io::ManifestImage& manifest) {
  std::size_t sum = manifest.root().size() + manifest.class_names().size() + manifest.source_paths().size();
  for (std::uint64_t i = 0; i < manifest.count(); ++i) {
    const carya::io::RecordAddress record = manifest.record(i);
    sum += record.path.size() + record.member.size() + std::strlen(manifest.path_c_str(i));
    CHECK(record.container == UINT32_MAX || record.container < manifest.containers().size());
    CHECK(manifest.class_names().empty() ||
          static_cast<std::uint64_t>(record.label) < manifest.class_names().size());
  }
  CHECK(sum < SIZE_MAX);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya::io;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto image = std::make_shared<std::vector<std::byte>>(bytes, bytes + size);
  if (size >= sizeof(ManifestHeader)) {
    // Hashes, magic and size are made right, so that the checks behind them are reached.
    ManifestHeader header;
    std::memcpy(&header, image->data(), sizeof header);
    std::memcpy(header.magic, kManifestMagic, sizeof header.magic);
    header.version = kManifestVersion;
    header.flags &= kFlagsKnown;
    header.file_bytes = size;
    std::memcpy(image->data(), &header, sizeof header);
    seal_manifest(*image);
  }
  if (const auto opened = ManifestImage::open(*image, image)) read_all(**opened);
  return 0;
}
