#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "loader/control/documents.h"
#include "loader/daemon/job_table.h"

namespace carya::loader {

// Streams that independent jobs read together (AttachRequest::share). A family is all streams of one such name. A job
// that comes joins a stream of its family that makes the same batches and whose window has its place; else it gets a
// stream of its own, which others may join. Who keeps the others of a stream waiting is parted from them, and two
// streams that come to the same place become one: their readers attach again. The bits are those of a lone run always.
// All functions are called under the job table's lock.

using HostJobs = std::map<std::string, std::shared_ptr<HostJob>>;

/// A name for a new stream of the family that no job has.
std::string free_name(const HostJobs& jobs, const std::string& share);

/// Call once a second. Part those that fall behind, leave slots to those who do not give them back, join streams that
/// met, and start those that waited long enough for others.
void look_after_shares(const HostJobs& jobs, std::int64_t now_ns);

/// The first batch of a shared stream waits so long for the others.
inline constexpr std::int64_t kGatherNs = 60'000'000'000;
/// Those that are ahead may wait for the last one for this share of the time, and so many s beyond it. One that stands still
/// is parted after 5 to 6 s, one that takes a tenth longer for a step than the others after 100. Measured: four trainers of
/// 20 ms a step keep together, of which a lone look at who has all slots parted one every 15 s (bench/fair_shares.py --paces).
inline constexpr double kMayWaitShare = 0.05, kKeptWaitingMaxS = 4;
/// So many looks in a row there may be too few slots to work with.
inline constexpr std::uint32_t kShortMax = 5;
/// A stream that parted with some takes nobody in for so long, and each time for twice as long, ten minutes at most.
inline constexpr std::int64_t kClosedNs = 10'000'000'000;
inline constexpr std::uint32_t kClosedDoublings = 6;

}  // namespace carya::loader
