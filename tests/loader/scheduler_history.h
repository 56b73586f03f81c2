#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/loader/model_sources.h"
#include "tests/loader/stream_account.h"

namespace carya::loader {

/// splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  bool one_in(std::uint64_t times) { return below(times) == 0; }

 private:
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

/// The last events, to be printed.
class Journal {
 public:
  void note(const char* what, std::uint64_t a = 0, std::uint64_t b = 0) {
    events_[count_++ % events_.size()] = {what, a, b};
  }
  std::uint64_t count() const { return count_; }
  std::string text() const {
    std::string text;
    const std::uint64_t shown = std::min<std::uint64_t>(count_, events_.size());
    for (std::uint64_t i = count_ - shown; i < count_; ++i) {
      const Event& event = events_[i % events_.size()];
      text += "\n  " + std::to_string(i) + " " + event.what + " " + std::to_string(event.a) + " " +
              std::to_string(event.b);
    }
    return text;
  }

 private:
  struct Event {
    const char* what;
    std::uint64_t a, b;
  };
  std::array<Event, 60> events_{};
  std::uint64_t count_ = 0;
};

/// One stream and its world. Does what Engine, Reader and RemoteExecutor do, in the same order of calls, but when
/// it likes.
class History {
 public:
  History(const Source& source, std::uint64_t seed, Journal& journal);
  void run(int steps);

 private:
  /// Chunks that are ahead, about: with more of them a history only takes longer.
  static constexpr std::uint32_t kAheadMax = 30;

  struct Thread {
    enum class State : std::uint8_t { kAsleep, kAwake, kTaken, kComputed } state = State::kAwake;
    Chunk* chunk = nullptr;
    ComputeScratch scratch{};
  };
  struct Lost {
    std::unique_ptr<ReadBatch> batch;
    std::vector<ReadOp*> reads;
  };
  struct Event {
    std::uint64_t weight;
    void (History::*happens)();
  };

  static StreamAccount::Options choose(const Source& source, Random& random);
  static shm::SlotLayout layout_of(const Source& source, const StreamAccount::Options& options);
  void choose_world();
  void make_scheduler();
  template <typename Call>
  void call(Call told);
  void pump();
  void dispatch();
  void one_event();

  // Storage.
  void read_some();
  void end_read(ReadOp& op, const Error* error);
  void fail_read();
  void read_short();
  void give_up();
  void late_answer();
  void change_file();
  // Threads of this machine.
  void thread_step();
  void step(Thread& thread);
  Chunk* take();
  void set_threads();
  // Workers.
  void feed();
  void take_remote();
  void end_remote();
  void end_work(std::size_t at, bool computed, bool lies);
  void fill_results(const ChunkWork& work, bool honest);
  void distrust();
  // The reader, and who directs.
  void reader();
  void answer_bell();
  void direct();
  void seek();
  void ask_place();
  // All answer.
  void drain();
  bool answer_all();
  void end();

  const Source& source_;
  Random random_;
  Journal& journal_;
  ModelRecords records_;
  StreamAccount::Options options_;
  bool short_memory_ = false, has_workers_ = false;
  ReadBufferPool pool_;
  std::shared_ptr<ModelRing> ring_;
  StreamAccount account_;
  std::vector<std::shared_ptr<PlanInUse>> plans_;
  std::vector<std::shared_ptr<const PlanCut>> cuts_;
  std::shared_ptr<StreamScheduler> scheduler_;
  Outbox out_;
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<ChunkWork>> works_;
  std::vector<Lost> lost_;
  std::vector<Event> events_;
  std::uint64_t weights_ = 0, workers_ = 2, verified_ = 0;
};

}  // namespace carya::loader
