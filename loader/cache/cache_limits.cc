#include "loader/cache/cache_limits.h"

#include <fmt/core.h>

#include <algorithm>

namespace carya::loader {
namespace {

void bound_folder(const char* tier, const CacheFolder& limit, const CacheFolder& asked, CacheFolder& given,
                  std::vector<std::string>& said) {
  if (given.bytes == 0 || limit.path.empty()) return;
  given = {.path = limit.path, .bytes = std::min(asked.bytes, limit.bytes)};
  const bool moved = !asked.path.empty() && asked.path != given.path;
  if (moved || given.bytes < asked.bytes)
    said.push_back(fmt::format("{}: asked for {} B{}, given {} B in {} by [cache] of caryad.toml", tier,
                               asked.bytes, moved ? " in " + asked.path : "", given.bytes, given.path));
}

}  // namespace

CacheOptions CacheLimits::bound(CacheOptions options, const CacheOptions& asked,
                                std::vector<std::string>& said) const {
  bound_folder("disk", disk, asked.disk, options.disk, said);
  bound_folder("shared", shared, asked.shared, options.shared, said);
  if (options.mode == CacheOptions::Mode::kAuto) {  // who runs the daemon has said what may be used
    if (options.disk.bytes == 0 && !disk.path.empty()) options.disk = disk;
    if (options.shared.bytes == 0 && !shared.path.empty()) options.shared = shared;
  }
  return options;
}

}  // namespace carya::loader
