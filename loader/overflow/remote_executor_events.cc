// What a crew's workers say.
#include <utility>

#include "base/clock.h"
#include "loader/overflow/remote_executor.h"
#include "loader/wire/compatibility.h"

namespace carya::loader {

Status PoolCrew::admit(std::uint64_t member, const remote::Welcome& welcome) {
  TRY(check_remote_facts(welcome.facts));
  const std::lock_guard lock(mutex_);
  members_[member].cores = worker_cores(welcome.facts);
  return {};
}

void PoolCrew::down(std::uint64_t member, const Error& reason, bool parked) {
  {
    const std::lock_guard lock(mutex_);
    members_[member].plan = 0;
  }
  options_.log("worker=" + std::to_string(member) + (parked ? " parked why=\"" : " down why=\"") +
               reason.message + "\"");
}

void PoolCrew::registered(std::uint64_t member, std::uint64_t plan, Result<std::string> about) {
  if (!about) {
    {
      const std::lock_guard lock(mutex_);
      members_[member].plan = 0;
    }
    return options_.log("worker=" + std::to_string(member) + " refuses the plan why=\"" +
                        about.error().message + "\"");
  }
  const auto ready = decode_remote<RemoteReady>(std::as_bytes(std::span(*about)));
  {
    const std::lock_guard lock(mutex_);
    Member& seen = members_[member];
    seen.reads = ready && ready->reads;
    seen.plan = std::max(seen.plan, plan);
    seen.room = true;
    seen.proven = false;
    choose(false);
  }
  if (ready && !ready->note.empty())
    options_.log("worker=" + std::to_string(member) + " says=\"" + ready->note + "\"");
  wake_();
}

void PoolCrew::room(std::uint64_t member) {
  {
    const std::lock_guard lock(mutex_);
    members_[member].room = true;
  }
  wake_();
}

remote::Placement PoolCrew::place(std::uint64_t request, const std::string&, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = out_.find(request);
  if (found == out_.end() || found->second.work->result_bytes() != bytes) return {};
  if (found->second.arriving_since_ns == 0) {
    found->second.arriving_since_ns = monotonic_ns();
    if (receiving_++ == 0) receiving_since_ns_ = found->second.arriving_since_ns;
  }
  return {.where = remote::Placement::Where::kParts, .parts = found->second.work->places};
}

void PoolCrew::done(std::uint64_t request, const std::string& about, bool placed) {
  const auto result = decode_remote<RemoteResult>(std::as_bytes(std::span(about)));
  if (!result) options_.log("request=" + std::to_string(request) + " why=\"" + result.error().message + "\"");
  if (result && !result->unread.empty()) note_unread(request, result->unread);
  if (placed && result && result->broken.empty())
    take_home(request, result->thread_ns);
  else
    give_back(request);
}

void PoolCrew::failed(std::uint64_t request, const Error& error) {
  options_.log("request=" + std::to_string(request) + " failed why=\"" + error.message + "\"");
  give_back(request);
}

void PoolCrew::lost(std::uint64_t request, const Error&) {
  give_back(request);
}

}  // namespace carya::loader
