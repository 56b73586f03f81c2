#pragma once

#include "loader/control/documents.h"
#include "loader/daemon/shared_streams.h"

namespace carya::loader {

/// Fill in the jobs of a status, and what all of them have in common. Call it under the job table's lock.
void describe_jobs(const HostJobs& jobs, DaemonStatus& status);

}  // namespace carya::loader
