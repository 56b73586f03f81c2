#pragma once

#include "loader/control/documents.h"
#include "loader/daemon/shared_streams.h"
#include "loader/job/outage_log.h"

namespace carya::loader {

/// Fill in the jobs of a status, and what all of them have in common. Call it under the job table's lock.
void describe_jobs(const HostJobs& jobs, DaemonStatus& status);

/// Say in the log what fails beside the streams, or works again. Call it about once a second, likewise.
void look_for_outages(const HostJobs& jobs, OutageLog& outages, std::int64_t now_ns);

}  // namespace carya::loader
