#pragma once

#include <vector>

#include "base/error.h"
#include "remote/protocol/messages.h"

namespace carya::loader {

/// The fact of a worker's Welcome that says on how many cores it computes.
inline constexpr const char* kCoresFact = "cores";

/// The facts in which a host and its workers must agree: the form of chunks, the versions of the codecs. Each side
/// tells them to the other.
std::vector<remote::Fact> remote_facts();
/// Checks that the other side's facts are ours. Errors: kUnsupported; the message says what differs and what to do.
Status check_remote_facts(const std::vector<remote::Fact>& theirs);

/// The number of cores that a worker says it has; 1 if it says nothing, or something impossible.
double worker_cores(const std::vector<remote::Fact>& facts);

}  // namespace carya::loader
