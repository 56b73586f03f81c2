#pragma once

#include <string>

#include "base/error.h"
#include "loader/plan/plan_profile.h"

namespace carya::loader {

/// Where a profile was measured: costs of another machine are none of this one.
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

/// Read a kept profile. It is hostile until checked: what cannot be is kCorrupt, or left out. Its times are
/// not later than now, and it weighs little beside what is measured from now on. Errors: kNotFound,
/// kPermission, kIo; kCorrupt (another version, damaged, larger than 256 KiB).
Result<PlanProfile> load_profile(const std::string& path, const transforms::Pipeline& pipeline,
                                 std::int64_t now_s);

/// Keep a profile, whole or not at all; makes the folder when it is missing. Errors: those of the folder.
Status store_profile(const std::string& path, const PlanProfile& profile, const ProfileMachine& machine);

/// Leave at most so many profiles beside this one, the newest.
void remove_old_profiles(const std::string& path, std::size_t files_max);
inline constexpr std::size_t kProfileFilesMax = 256;

}  // namespace carya::loader
