#include "loader/wire/compatibility.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "loader/host/host.h"
#include "transforms/pipeline/codec_versions.h"

namespace carya::loader {
namespace {

/// Rises when FORMAT.md says something else: sides with different ones refuse each other.
constexpr const char* kChunkForm = "2";

}  // namespace

std::vector<remote::Fact> remote_facts() {
  std::vector<remote::Fact> facts{{"chunks", kChunkForm}};
  for (const std::string& codec : transforms::codec_versions()) facts.push_back({"codec", codec});
  return facts;
}

Status check_remote_facts(const std::vector<remote::Fact>& theirs) {
  for (const remote::Fact& ours : remote_facts()) {
    if (std::ranges::find(theirs, ours) != theirs.end()) continue;
    std::string other;
    for (const remote::Fact& fact : theirs)
      if (fact.name == ours.name) other += (other.empty() ? "" : ", ") + fact.value;
    return fail(Code::kUnsupported, ours.name + ": one side has " + ours.value + ", the other " +
                                        (other.empty() ? "none" : other) +
                                        "; install the same release of carya on host and workers");
  }
  return {};
}

double worker_cores(const std::vector<remote::Fact>& facts) {
  std::uint32_t cores = 1;
  for (const remote::Fact& fact : facts)
    if (fact.name == kCoresFact)
      std::from_chars(fact.value.data(), fact.value.data() + fact.value.size(), cores);
  return std::clamp<std::uint32_t>(cores, 1, kThreadsMax);
}

}  // namespace carya::loader
