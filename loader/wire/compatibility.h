#pragma once

#include <vector>

#include "base/error.h"
#include "remote/protocol/messages.h"

namespace carya::loader {

/// What a worker's Welcome says beside those: how many cores it computes on.
inline constexpr const char* kCoresFact = "cores";

/// What a host and its workers must agree in, as both say it to each other: the form of chunks, the versions
/// of the codecs.
std::vector<remote::Fact> remote_facts();
/// Whether the other side's facts are ours. Errors: kUnsupported: what differs, and what to do.
Status check_remote_facts(const std::vector<remote::Fact>& theirs);

/// How many cores a worker says that it has; 1 where it says nothing that can be.
double worker_cores(const std::vector<remote::Fact>& facts);

}  // namespace carya::loader
