#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "remote/server/server.h"

namespace carya::remote {

/// Keeps what is asked until the test answers.
struct RecordingHandler : ChunkHandler {
  Result<std::vector<Fact>> admit(std::uint64_t, const Hello& hello, const ClientUser&) override {
    ++admitted;
    for (const Fact& fact : hello.facts)
      if (fact.name == "jpeg" && fact.value != "3")
        return fail(Code::kUnsupported, "jpeg " + fact.value + ", this worker has 3");
    return std::vector<Fact>{{"jpeg", "3"}};
  }
  void register_plan(Asked asked) override { keep(plans, std::move(asked)); }
  void compute(Asked asked) override { keep(chunks, std::move(asked)); }
  void cancel(const Ticket& ticket) override { keep(cancelled, ticket.serial); }
  void forget_plan(std::uint64_t, std::uint64_t plan) override { keep(forgotten, plan); }
  void gone(std::uint64_t, const std::string&, const Error& reason) override { keep(reasons, reason); }

  template <typename T>
  void keep(std::vector<T>& list, T item) {
    {
      const std::lock_guard lock(mutex);
      list.push_back(std::move(item));
    }
    came.notify_all();
  }
  /// The index-th of a list, when it has come.
  template <typename T>
  T wait(std::vector<T>& list, std::size_t index) {
    std::unique_lock lock(mutex);
    came.wait(lock, [&] { return list.size() > index; });
    return list[index];
  }

  std::atomic<int> admitted = 0;  // also who was refused then
  std::mutex mutex;
  std::condition_variable came;
  std::vector<Asked> plans, chunks;
  std::vector<std::uint64_t> forgotten, cancelled;
  std::vector<Error> reasons;
};

}  // namespace carya::remote
