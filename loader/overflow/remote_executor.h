#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "loader/overflow/chunk_window.h"
#include "loader/overflow/result_verifier.h"
#include "loader/overflow/secret_dice.h"
#include "loader/overflow/worker_selection.h"
#include "loader/overflow/worker_speed.h"
#include "loader/stream/executor.h"
#include "remote/pool/pool.h"

namespace carya::loader {

/// What a crew has done so far.
struct CrewTotals {
  std::uint64_t rows = 0;            ///< that came home
  std::uint64_t worker_ns = 0;       ///< thread time that workers of speed 1 would have needed for those
  std::uint64_t received_bytes = 0;  ///< of results
  std::int64_t receiving_ns = 0;     ///< in which the bytes of some result were on their way in
  std::int64_t host_ns = 0;          ///< CPU time of this machine for sending and receiving
  std::int64_t away_p99_ns = 0;      ///< a chunk, there and back; 0: not known yet
  std::uint32_t used = 0;            ///< workers in use: they are there, and get or soon get chunks
  std::uint32_t ready = 0;           ///< of those, that have the plan
  double worker_cores = 0;           ///< of one, the mean of those that ever came; 0: none did
  /// Beside the fastest if all of it were free, of those that are there and known, fastest first.
  std::vector<double> worker_speeds{};
  double link_out_bytes_per_s = 0;  ///< to all workers; 0: not known
};

struct PoolCrewOptions {
  std::vector<std::string> workers;               ///< "host:port", "unix:/path"
  remote::PoolOptions pool{};                     ///< its hello is filled in
  std::size_t lead = 2;                           ///< ready chunks that this machine keeps
  double verify = 0.01;                           ///< RemoteOptions::verify
  std::function<void(const std::string&)> log{};  ///< one line per event; from any thread
};

/// A crew of workers that are connected to over the network. It uses so many of those that are there as it is
/// told, by how little others ask them. A chunk goes to the one of those that has room and will have it home
/// first, if that is before the trainer wants it. One that takes more than twice what 99 of 100 took is
/// computed here; so is one that the trainer waits for while this machine has nothing to do, once that would
/// have taken no longer. Workers that die or refuse slow the stream and change nothing else.
///
/// A worker has as many chunks at a time as keep it busy, those on their way included, and no more: what it
/// has beyond that this machine could compute, and the batch would wait for it.
///
/// The first chunk of a worker, on each connection, is computed here too before it gets a second one, and
/// later a share `verify` of them, which ones is this machine's secret. One whose bits differ is expelled for
/// good: what it has is computed here, and so is what it delivered of batches that are not published yet;
/// those that went out are named.
///
/// Threads: as Crew says; one of its own receives.
class PoolCrew final : public Crew, private remote::PoolEvents {
 public:
  /// Without a plan it takes no work. Errors: kInvalidArgument (an address, TLS files, plain TCP to another
  /// machine, an unknown name), kUnsupported, kExhausted.
  static Result<std::shared_ptr<PoolCrew>> create(const PoolCrewOptions& options);
  ~PoolCrew() override;

  void begin(RemoteDone done, std::function<void()> wake) override;
  void feed(Production& production, Outbox& out) override;
  void stop() override;
  void end() override;

  /// Chunks taken from now on are run so: `plan`, of a number that was not used before, by workers, `rest` by
  /// this machine, null where nothing is left. Errors: those of WorkerPlan::compile().
  Status set_plan(const RemotePlan& plan, std::shared_ptr<PlanInUse> rest);
  /// Connects to a worker from now on; its number. Looks its name up, which may take seconds. Errors: as
  /// create().
  Result<std::uint64_t> add_worker(const std::string& address);
  /// What it has is computed elsewhere.
  void remove_worker(std::uint64_t member);
  /// At most so many workers get work from now on.
  void set_workers(std::uint32_t workers);
  /// What one of them saves, in $ per hour: those that other hosts ask too share themselves by it.
  void set_worth(double worth) { pool_->set_worth(worth); }

  /// Also of those that were expelled, with the reason, as they were then.
  std::vector<remote::WorkerFigures> figures() const;
  /// To be asked now and then: looks how far away the workers are.
  CrewTotals totals();
  std::size_t members() const;

 private:
  struct Member {
    std::uint64_t plan = 0;        // the newest that it has; 0: it is not there
    bool room = true;              // as far as is known
    std::uint64_t chunks_max = 0;  // that it lets us have at a time
    WorkerSeen seen{};             // used: gets work
    bool reads = false;            // records itself, of that plan
    bool proven = false;           // with that plan, on this connection
    bool expelled = false;
    std::size_t out = 0;  // with it, or being checked
    double cores = 0;     // 0: it never came
    ChunkWindow window{};
    WorkerSpeed speed{};
    double free = 1;  // of it, beside other hosts
  };
  struct Out {
    std::unique_ptr<RemoteWork> work;
    std::uint64_t member = 0;
    std::int64_t since_ns = 0;
    double home_ns = 0;                  // that it is thought to take; 0: not known
    std::int64_t arriving_since_ns = 0;  // 0: nothing has come
  };

  explicit PoolCrew(const PoolCrewOptions& options);
  bool is_ready(const Member& member) const { return cut_ && member.plan == cut_->plan && !member.expelled; }
  static bool is_there(const Member& member) { return member.plan != 0 && !member.expelled; }
  bool any_reads() const {
    return std::ranges::any_of(members_, [](const auto& one) { return one.second.reads; });
  }
  void choose(bool moves);
  double mean_cores() const;
  double note_speed(Member& member, std::uint64_t thread_ns, std::uint64_t rows);
  Member* next_member();
  void note_taken(const Production& production);
  std::size_t batches_before(const Member& member) const;
  bool submit(std::unique_ptr<RemoteWork>& work);
  void take_back_late(Production& production, Outbox& out);
  void take_back_waited_for(Production& production, Outbox& out);
  bool take_back(std::uint64_t request, Production& production, Outbox& out);
  void note_latency(std::int64_t ns);
  void note_away(const Out& one);
  std::unique_ptr<RemoteWork> take_out(std::uint64_t request);
  void give_back(std::uint64_t request);
  void note_unread(std::uint64_t request, const std::string& why);
  void take_home(std::uint64_t request, std::uint64_t thread_ns);
  void checked(std::unique_ptr<RemoteWork> work, ChunkCheck::Verdict verdict, bool rows_are_ours);
  bool expel(std::uint64_t worker);
  void tell_what_went_out(std::uint64_t worker, const std::string& batches);

  Status admit(std::uint64_t member, const remote::Welcome& welcome) override;
  void down(std::uint64_t member, const Error& reason, bool parked) override;
  void registered(std::uint64_t member, std::uint64_t plan, Result<std::string> about) override;
  void room(std::uint64_t member) override;
  remote::Placement place(std::uint64_t request, const std::string& about, std::uint64_t bytes) override;
  void done(std::uint64_t request, const std::string& about, bool placed) override;
  void failed(std::uint64_t request, const Error& error) override;
  void lost(std::uint64_t request, const Error& reason) override;

  PoolCrewOptions options_;
  const std::uint64_t number_;  // of no other crew of this process
  RemoteDone done_;
  std::function<void()> wake_;

  mutable std::mutex mutex_;  // taken under the engine's lock, never the other way round
  std::shared_ptr<const PlanCut> cut_;
  std::vector<std::uint64_t> plans_;  // that the pool knows, the present one last
  std::uint32_t workers_ = UINT32_MAX;
  CrewTotals totals_{};
  std::size_t receiving_ = 0;  // results whose bytes are on their way in
  std::int64_t receiving_since_ns_ = 0;
  std::map<std::uint64_t, Member> members_;
  std::minstd_rand random_;
  SecretDice dice_;
  std::unordered_map<std::uint64_t, Out> out_;
  std::uint64_t requests_ = 0;
  std::array<std::int64_t, 128> latencies_{};  // the last ones, ns
  std::size_t latencies_count_ = 0;
  std::int64_t late_ns_;
  double taken_samples_ = 0;  // by the trainer, at
  std::int64_t taken_at_ns_ = 0;
  double batch_ns_ = 0;               // between two of its batches; 0: not known
  const Step* waited_for_ = nullptr;  // as the production has it, never looked into
  std::int64_t waited_since_ns_ = 0;
  std::vector<std::uint64_t> distrusted_;  // workers of which the production has not been told
  std::vector<remote::WorkerFigures> expelled_;
  bool stopping_ = false;

  std::unique_ptr<ChunkCheck> check_;
  std::unique_ptr<remote::WorkerPool> pool_;
  std::thread thread_;
};

}  // namespace carya::loader
