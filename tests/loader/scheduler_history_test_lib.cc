#include "tests/loader/scheduler_history.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace carya::loader {
namespace {

using transforms::OnError;

class NoExecutor final : public Executor {
 public:
  void begin(ChunkDone, std::function<void()>) override {}
  void offer(StreamScheduler&, Outbox&) override {}
  void stop() override {}
  void end() override {}
};

}  // namespace

StreamAccount::Options History::choose(const Source& source, Random& random) {
  StreamAccount::Options options;
  const std::uint64_t world = 1 + random.below(3), rows = 1 + random.below(random.one_in(3) ? 3 : 14);
  const std::uint64_t count = source.dataset->count();
  const bool pads = random.one_in(4), drops = !pads && random.one_in(4) && rows * world <= count;
  options.shape = *StreamShape::create(count, rows, 0, world, random.below(world), drops, pads);
  options.seed = random.below(1000);
  if (random.one_in(3)) options.epochs = 1 + random.below(4);
  options.prefetch_epochs = !random.one_in(4);
  options.shuffled = source.pipeline->shuffled();
  options.has_reads = source.has_reads;
  options.sees_all = source.sees_all;
  options.has_memory = !random.one_in(5);
  options.may_repeat = source.has_reads && !random.one_in(4);
  options.label_int32 = random.one_in(3);
  constexpr std::uint64_t kBudgets[] = {0, 20'000, 70'000, 200'000, 64 << 20, 64 << 20};
  options.read_ahead_bytes = kBudgets[random.below(std::size(kBudgets))];
  options.threads = static_cast<std::uint32_t>(1 + random.below(4));
  options.on_error = static_cast<OnError>(random.below(3));
  return options;
}

shm::SlotLayout History::layout_of(const Source& source, const StreamAccount::Options& options) {
  const std::uint64_t rows = options.shape.rank_rows_max();
  std::vector<shm::SlotTensor> tensors{{.name = "image", .shape = {rows, kModelImageBytes}}};
  if (source.has_reads)
    tensors.push_back(
        {.name = "label", .dtype = options.label_int32 ? DType::kInt32 : DType::kInt64, .shape = {rows}});
  tensors.push_back({.name = "carya.records", .dtype = DType::kInt64, .shape = {rows}});
  tensors.push_back({.name = "carya.valid", .dtype = DType::kBool, .shape = {rows}});
  return *shm::SlotLayout::create(std::move(tensors));
}

History::History(const Source& source, std::uint64_t seed, Journal& journal)
    : source_(source),
      random_(seed),
      journal_(journal),
      records_{.dataset = source.dataset},
      options_(choose(source, random_)),
      pool_(random_.one_in(2) ? 0 : 1 << 20,
            [has = options_.has_memory] { return has ? std::uint64_t{1} << 50 : 0; }),
      ring_(std::make_shared<ModelRing>(layout_of(source, options_),
                                        static_cast<std::uint32_t>(2 + random_.below(5)))),
      account_(options_, records_, *ring_) {
  choose_world();
  make_scheduler();
}

void History::choose_world() {
  short_memory_ = ShortMemory::possible() && random_.one_in(8);
  has_workers_ = random_.one_in(2);
  const std::uint64_t often[] = {0, 0, 3, 16};
  const std::uint64_t first = often[random_.below(4)], second = often[random_.below(4)],
                      changing = random_.below(2) * 16;
  for (std::uint64_t record = 0; record < source_.dataset->count(); ++record) {
    if (first > 0 && random_.one_in(first)) records_.broken_first.insert(record);
    if (second > 0 && random_.one_in(2 * second)) records_.broken_second.insert(record);
    if (changing > 0 && random_.one_in(changing)) records_.changing.insert(record);
  }
  const auto weight = [&](std::uint64_t usual) { return usual * (1 + random_.below(8)); };
  events_ = {{weight(12), &History::read_some}, {weight(20), &History::thread_step},
             {weight(8), &History::reader},     {weight(1), &History::direct},
             {weight(1), &History::ask_place},  {weight(4), &History::answer_bell}};
  if (options_.has_reads) events_.push_back({weight(1), &History::read_short});
  if (changing > 0) events_.push_back({weight(1), &History::change_file});
  if (options_.has_reads && random_.one_in(4)) {
    events_.push_back({1, &History::fail_read});
    events_.push_back({1, &History::give_up});
    events_.push_back({4, &History::late_answer});
  }
  if (has_workers_) {
    events_.push_back({weight(10), &History::feed});
    events_.push_back({weight(8), &History::end_remote});
  }
  for (const Event& event : events_) weights_ += event.weight;
  ring_->before_waiting = [this] {
    if (random_.one_in(8) && ring_->release(random_.below(99), false)) journal_.note("late release");
  };
}

void History::make_scheduler() {
  const auto& fields = source_.pipeline->fields();
  for (std::size_t i = 0; i < 3; ++i) {
    auto plan = std::make_shared<ModelPlan>(records_, fields, true, 1'000'000 >> (4 * i));
    plans_.push_back(std::make_shared<PlanInUse>(PlanInUse{std::move(plan), {.order = {i}}}));
  }
  const auto rest = std::make_shared<ModelPlan>(records_, fields, false, 1000);
  auto outputs = plans_[0]->plan->outputs();
  cuts_.push_back(std::make_shared<PlanCut>(PlanCut{.plan = 1, .outputs = outputs, .rest = nullptr}));
  cuts_.push_back(std::make_shared<PlanCut>(
      PlanCut{.plan = 2, .outputs = outputs, .rest = std::make_shared<PlanInUse>(PlanInUse{rest, {}})}));
  account_.plan = plans_[0];
  scheduler_ = StreamScheduler::create({.pipeline = source_.pipeline,
                                        .dataset = source_.dataset,
                                        .ring = ring_,
                                        .index = source_.index,
                                        .planner = source_.planner,
                                        .executor = has_workers_ ? std::make_shared<NoExecutor>() : nullptr},
                                       plans_[0], pool_,
                                       {.shape = options_.shape,
                                        .seed = options_.seed,
                                        .epochs = options_.epochs,
                                        .prefetch_epochs = options_.prefetch_epochs,
                                        .on_error = options_.on_error,
                                        .threads = options_.threads,
                                        .read_ahead_bytes = options_.read_ahead_bytes,
                                        .io_timeout_ns = options_.may_repeat ? INT64_C(1) << 50 : 0,
                                        .label_int32 = options_.label_int32});
  account_.watch(*scheduler_);
  threads_.resize(options_.threads);
}

template <typename Call>
void History::call(Call told) {
  const bool is_short = short_memory_ && random_.one_in(40);
  const ShortMemoryHere here(is_short ? static_cast<std::int64_t>(1 + random_.below(8)) : 0);
  try {
    told();
  } catch (const std::bad_alloc&) {
    require(false, "std::bad_alloc comes out of a call that may not throw");
  }
  if (!ShortMemoryHere::failed()) return;
  journal_.note("memory was short");
  account_.note_short();
}

void History::pump() {
  call([&] {
    scheduler_->pump(out_);
    const MemorySpared spared;
    account_.collect(out_.reads);
  });
  account_.pumped();
  dispatch();
}

// As Engine::dispatch: threads that sleep are woken.
void History::dispatch() {
  for (Thread& thread : threads_) {
    if (out_.runnable == 0) break;
    if (thread.state != Thread::State::kAsleep) continue;
    thread.state = Thread::State::kAwake;
    --out_.runnable;
  }
  out_.runnable = 0;
}

void History::end_read(ReadOp& op, const Error* error) {
  const auto source = source_.dataset->source_index(chunk_of(op).tasks[op.task].record);
  if (!error) records_.fill(source, op.request.dest, op.request.length);
  const io::ReadCompletion completion{.token = op.request.token,
                                      .ok = error == nullptr,
                                      .latency_ns = static_cast<std::int64_t>(1000 << random_.below(5))};
  journal_.note(error ? "read fails: source" : "read: source", source, op.task);
  account_.read_ended(op, completion, error);
  std::optional<Error> given;
  if (error) given = *error;
  call([&] {
    scheduler_->read_done(op, completion, std::move(given), out_);
    const MemorySpared spared;
    account_.collect(out_.reads);
  });
}

void History::read_some() {
  for (std::uint64_t count = 1 + random_.below(6); count > 0 && !account_.open_reads().empty(); --count)
    end_read(*account_.open_reads()[random_.below(account_.open_reads().size())], nullptr);
  dispatch();
  pump();
}

void History::fail_read() {
  if (account_.open_reads().empty()) return;
  const Error error{Code::kIo, "model: storage fails", EIO};
  end_read(*account_.open_reads()[random_.below(account_.open_reads().size())], &error);
  pump();
}

// Some of the bytes come, and the read is tried again.
void History::read_short() {
  if (account_.open_reads().empty()) return;
  const ReadOp& op = *account_.open_reads()[random_.below(account_.open_reads().size())];
  std::memset(op.request.dest, 0xDD, random_.below(op.request.length + 1));
  scheduler_->note_retry();
  journal_.note("short answer", op.task);
}

// A read has no answer: its chunk is given up. Some of its reads were not issued, others answer late.
void History::give_up() {
  if (account_.open_reads().empty()) return;
  ReadOp& op = *account_.open_reads()[random_.below(account_.open_reads().size())];
  Lost lost;
  for (ReadOp* other : account_.open_reads())
    if (other->batch == op.batch && (other == &op || random_.one_in(2))) lost.reads.push_back(other);
  journal_.note("no answer: reads", lost.reads.size(), op.task);
  account_.given_up(op);
  const Error error{Code::kIo, "model: no answer", 0};
  call([&] {
    lost.batch = scheduler_->give_up(op, error, out_);
    const MemorySpared spared;
    account_.collect(out_.reads);
  });
  dispatch();
  lost_.push_back(std::move(lost));
}

void History::late_answer() {
  if (lost_.empty()) return;
  const std::size_t at = random_.below(lost_.size());
  Lost& lost = lost_[at];
  const ReadOp& op = *lost.reads.back();
  std::memset(op.request.dest, 0xDD, op.request.length);
  lost.reads.pop_back();
  journal_.note("late answer: left", lost.reads.size());
  if (!lost.reads.empty()) return;
  pool_.give(std::move(lost.batch->buffer));
  lost_.erase(lost_.begin() + static_cast<std::ptrdiff_t>(at));
}

void History::change_file() {
  records_.changing.insert(random_.below(source_.dataset->count()));
}

void History::thread_step() {
  step(threads_[random_.below(threads_.size())]);
}

Chunk* History::take() {
  Chunk* const chunk = scheduler_->take_runnable();
  account_.taken(chunk);
  return chunk;
}

// As Engine::compute_loop.
void History::step(Thread& thread) {
  switch (thread.state) {
    case Thread::State::kAsleep:
      return;
    case Thread::State::kAwake:
      thread.chunk = take();
      if (thread.chunk == nullptr) {
        if (scheduler_->read_ahead().flow().ahead_chunks < kAheadMax) scheduler_->note_starved();
        pump();
        thread.chunk = take();
      }
      journal_.note(thread.chunk ? "taken: order" : "nothing to take",
                    thread.chunk ? thread.chunk->order : 0);
      thread.state = thread.chunk ? Thread::State::kTaken : Thread::State::kAsleep;
      if (thread.chunk) thread.scratch = scheduler_->parallelism().take_scratch();
      return;
    case Thread::State::kTaken:
      records_.ran.clear();
      call([&] {
        scheduler_->compute(*thread.chunk, thread.scratch);
        const MemorySpared spared;
        account_.computed(*thread.chunk);
      });
      thread.state = Thread::State::kComputed;
      return;
    case Thread::State::kComputed:
      journal_.note("finished: order, rows", thread.chunk->order, thread.chunk->tasks.size());
      account_.finished(*thread.chunk);
      call([&] {
        scheduler_->finish(*thread.chunk, std::move(thread.scratch), {1000, 900}, out_);
        const MemorySpared spared;
        account_.collect(out_.reads);
      });
      thread.state = Thread::State::kAwake;
      pump();
  }
}

// As LocalStream::set_threads and Engine::set_cores: there are as many threads as there ever were.
void History::set_threads() {
  const auto threads = static_cast<std::uint32_t>(1 + random_.below(6));
  journal_.note("threads", threads);
  scheduler_->parallelism().set_threads(threads);
  if (threads > threads_.size()) threads_.resize(threads);
  for (Thread& thread : threads_)
    if (thread.state == Thread::State::kAsleep) thread.state = Thread::State::kAwake;
  pump();
}

// As Engine::pump with a crew: what it does under the lock is followed by no other pump.
void History::feed() {
  pump();
  if (random_.one_in(20)) distrust();
  account_.waited_for(scheduler_->waited_for());
  while (!works_.empty() && random_.one_in(4)) {
    const std::size_t at = random_.below(works_.size());
    fill_results(*works_[at], false);
    end_work(at, false, false);
  }
  for (std::uint64_t count = random_.below(5); count > 0; --count) take_remote();
  dispatch();
}

void History::take_remote() {
  const ChunkWanted wanted{.keep_local = random_.below(3),
                           .min_batches_ahead = random_.one_in(2) ? 0 : random_.below(6),
                           .allow_final = random_.one_in(2)};
  std::unique_ptr<ChunkWork> work;
  call([&] {
    work = scheduler_->take_remote(cuts_[random_.below(2)], wanted);
    const MemorySpared spared;
    account_.taken_remote(work.get(), wanted, ShortMemoryHere::failed());
  });
  if (!work) return;
  work->worker = 1 + workers_ - random_.below(2);
  if (account_.is_distrusted(work->worker)) work->worker = workers_ += 2;
  journal_.note("sent: order, worker", work->chunk->order, work->worker);
  works_.push_back(std::move(work));
}

// A worker that lies says that it computed what it did not; one that is lost may have written anything.
void History::end_remote() {
  if (works_.empty()) return;
  const std::size_t at = random_.below(works_.size());
  // Of a worker that there was no memory to note as distrusted nothing is known.
  const bool unknown = account_.is_short() && account_.is_distrusted(works_[at]->worker);
  const bool lies = !unknown && works_[at]->worker % 2 == 1 && random_.one_in(2);
  const bool honest = !lies && !unknown && account_.can_compute(*works_[at]) && !random_.one_in(6);
  fill_results(*works_[at], honest);
  end_work(at, honest || lies, lies);
  pump();
}

void History::end_work(std::size_t at, bool computed, bool lies) {
  const std::unique_ptr<ChunkWork> work = std::move(works_[at]);
  works_.erase(works_.begin() + static_cast<std::ptrdiff_t>(at));
  journal_.note(!computed ? "not computed: order, worker"
                : lies    ? "lied: order, worker"
                          : "home: order, worker",
                work->chunk->order, work->worker);
  const bool believed = computed && !work->chunk->step->dropped && !account_.is_distrusted(work->worker);
  account_.remote_ended(*work, computed, lies);
  call([&] {
    scheduler_->end_remote(*work, computed, out_);
    const MemorySpared spared;
    if (work->aside.memory && work->cut->rest && believed) account_.lost_for_memory(*work->chunk);
    account_.collect(out_.reads);
  });
}

void History::fill_results(const ChunkWork& work, bool honest) {
  for (const std::span<std::byte> place : work.places) std::ranges::fill(place, std::byte{0xDD});
  for (std::size_t t = 0; honest && t < work.chunk->tasks.size(); ++t) {
    const RowTask& task = work.chunk->tasks[t];
    const std::uint64_t source = source_.dataset->source_index(task.record);
    const std::uint64_t epoch = work.epoch;
    const std::uint64_t image = work.cut->rest
                                    ? ModelRecords::first_stage(source, epoch, task.record, task.occurrence)
                                    : records_.image(epoch, task.record, task.occurrence);
    std::memcpy(work.places[0].data() + t * kModelImageBytes, &image, kModelImageBytes);
    if (work.places.size() == 1) continue;
    const std::int64_t label = source_.dataset->label(task.record);
    std::memcpy(work.places[1].data() + 8 * t, &label, sizeof label);
  }
}

void History::distrust() {
  const std::uint64_t worker = 1 + workers_ - random_.below(2);
  if (account_.is_distrusted(worker)) return;
  journal_.note("distrusted: worker", worker);
  account_.distrusted(worker);
  call([&] {
    scheduler_->distrust(worker, out_);
    const MemorySpared spared;
    account_.collect(out_.reads);
  });
  account_.check_went_out(worker);
}

void History::reader() {
  if (random_.one_in(2) && ring_->take()) journal_.note("batch taken");
  if (random_.one_in(2) && ring_->release(random_.below(99))) journal_.note("batch released");
}

void History::answer_bell() {
  if (!ring_->rung()) return;
  journal_.note("bell");
  ring_->answer_bell();
  pump();
}

void History::direct() {
  switch (const std::uint64_t what = random_.below(11); what) {
    case 0:
      account_.plan = plans_[random_.below(plans_.size())];
      scheduler_->plans().set(account_.plan);
      return;
    case 1:
      return set_threads();
    case 2:
      scheduler_->parallelism().set_share(static_cast<std::uint32_t>(1 + random_.below(5)));
      return pump();
    case 3:
      account_.options.read_ahead_bytes = random_.one_in(2) ? 64 << 20 : random_.below(100'000);
      scheduler_->read_ahead().set_budget(account_.options.read_ahead_bytes);
      ring_->set_limit(random_.one_in(2) ? ring_->slots() : 2);
      return pump();
    case 4:
      return scheduler_->parallelism().set_remote_threads(static_cast<std::uint32_t>(random_.below(9)));
    case 5:
      journal_.note("pause");
      account_.paused = true;
      return scheduler_->sequencer().pause();
    case 6:
    case 7:
      journal_.note("resume");
      account_.paused = false;
      scheduler_->sequencer().resume();
      return pump();
    case 8:
      account_.policy_set(static_cast<OnError>(random_.below(3)));
      scheduler_->set_on_error(account_.options.on_error);
      return;
    case 9:
      return scheduler_->sequencer().forget_before(account_.sequence() -
                                                   random_.below(account_.sequence() + 1));
    default:
      return seek();
  }
}

void History::seek() {
  const std::uint64_t epoch = random_.below(3);
  const std::uint64_t position = random_.below(source_.dataset->count() + 1);
  journal_.note("seek", epoch, position);
  account_.seek(epoch, position);
  scheduler_->seek(epoch, position);
  if (random_.one_in(8)) {
    account_.paused = true;
    return scheduler_->sequencer().pause();
  }
  pump();
}

void History::ask_place() {
  auto [epoch, position] = account_.place();
  const std::uint64_t step = source_.dataset->count() < 20 ? 1 : options_.shape.global_size;
  if (random_.one_in(2)) position -= std::min(position, step * random_.below(8));
  if (random_.one_in(8)) position = source_.dataset->count(), epoch -= std::min<std::uint64_t>(epoch, 1);
  account_.check_place(epoch, position);
}

/// Everybody answers, once. False: there was nothing to answer.
bool History::answer_all() {
  bool any = false;
  const auto look = [&] { account_.verify(true); };
  for (; !account_.open_reads().empty(); any = true, look()) read_some();
  for (std::size_t i = 0; i < threads_.size(); ++i)
    for (; threads_[i].state != Thread::State::kAsleep; any = true, look()) step(threads_[i]);
  for (; !works_.empty(); any = true, look()) {
    const bool unknown = account_.is_short() && account_.is_distrusted(works_.back()->worker);
    const bool honest = account_.can_compute(*works_.back()) && !unknown;
    fill_results(*works_.back(), honest);
    end_work(works_.size() - 1, honest, false);
    pump();
  }
  while (ring_->take()) any = true;
  while (ring_->release(0)) any = true;
  if (ring_->rung()) answer_bell(), any = true;
  return any;
}

// Without a seek a stream that goes on has a batch, or a failure, once all have answered.
void History::drain() {
  journal_.note("all answer");
  const std::uint64_t wanted = account_.batches() + 1 + random_.below(4);
  while (account_.batches() < wanted && account_.goes_on()) {
    if (answer_all()) continue;
    // While memory is limited it must look for slots itself; and nothing may be out when it is asked.
    if (ring_->limited()) pump();
    require(answer_all() || account_.batches() >= wanted || !account_.goes_on(),
            "the stream stalls: all have answered, and no batch comes");
  }
}

void History::one_event() {
  std::uint64_t at = random_.below(weights_);
  for (const Event& event : events_) {
    if (at < event.weight) {
      (this->*event.happens)();
      break;
    }
    at -= event.weight;
  }
  account_.verify(++verified_ % 8 == 0);
}

void History::run(int steps) {
  pump();
  for (int i = 0; i < steps; ++i) {
    one_event();
    if (random_.one_in(300)) drain();
    // A stream that is over is no place to stay.
    if ((account_.failed() || !account_.goes_on()) && random_.one_in(20)) seek();
  }
  if (account_.paused || account_.failed()) seek();
  drain();
  end();
}

// All that is under way comes to its end, and leaves nothing.
void History::end() {
  journal_.note("stop");
  account_.stopped();
  scheduler_->stop();
  account_.verify(true);
  while (!account_.open_reads().empty()) {
    read_some();
    account_.verify(true);
  }
  for (Thread& thread : threads_)
    while (thread.state != Thread::State::kAsleep) step(thread);
  while (!works_.empty()) end_work(0, false, false);
  account_.verify(true);
  require(is_quiet(*scheduler_), "something is under way behind the end");
  require_equal(ring_->count(ModelRing::State::kFilling), 0U, "slots that are being filled behind the end");
  require_equal(scheduler_->stats().buffered_bytes, 0U, "bytes of read buffers behind the end");
}

}  // namespace carya::loader
