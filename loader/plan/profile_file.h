#pragma once

#include <string>

#include "base/error.h"
#include "loader/plan/plan_profile.h"

namespace carya::loader {

/// The machine on which a profile was measured: costs of another machine say nothing of this one.
struct ProfileMachine {
  std::string cpu;  ///< "Intel(R) Xeon(R) ...", "" where unknown
  std::string simd;
  std::uint32_t cores = 1;

  static ProfileMachine here();
};

/// "<cache_dir>/profile-<hash>.json": one file per pipeline (its ops and fields; not its source, batch or
/// seed) and machine.
std::string profile_path(const std::string& cache_dir, const transforms::Pipeline& pipeline,
                         const ProfileMachine& machine);

/// Read a kept profile, which is hostile until checked: impossible values are kCorrupt, or left out. No time in it is
/// later than now, and measurements from now on soon outweigh it. Errors: kNotFound, kPermission, kIo; kCorrupt
/// (another version, damaged, larger than 256 KiB).
Result<PlanProfile> load_profile(const std::string& path, const transforms::Pipeline& pipeline,
                                 std::int64_t now_s);

/// Write a profile, whole or not at all, and make its folder if it is missing. Errors: those of the folder.
Status store_profile(const std::string& path, const PlanProfile& profile, const ProfileMachine& machine);

/// Keep the newest `files_max` profiles beside this one, and remove the others.
void remove_old_profiles(const std::string& path, std::size_t files_max);
inline constexpr std::size_t kProfileFilesMax = 256;

}  // namespace carya::loader
