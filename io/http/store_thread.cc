// 1. The owner puts reads into `asked_` and wakes the thread.
// 2. The thread moves them to `waiting_`, in order, and begins requests while the store of each allows one more. A request
//    takes further reads of its object from the queue where they lie near (JoinedRanges).
// 3. libcurl hands over headers, then bytes. The bytes are written only after the headers were judged; a part that is
//    whole becomes a completion at once.
// 4. When a request ends, the parts that are not whole get its verdict. The read scheduler tries them again.
// 5. A request that is not answered for unusually long is asked again on another connection (hedging.h), and in the place
//    of that one once more where it is late too. The first that is answered writes; the other one is ended before libcurl
//    hands over a byte of it.
// 6. Completions lie in `done_`; after each look at all sockets, `wake_` tells the owner.
#include "io/http/store_thread.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/clock.h"

namespace carya::io {
namespace {

constexpr int kIdleMs = 60'000;
constexpr std::uint64_t kJoinMin = 1 << 20;  // so far reads are joined also where there are requests to spare
constexpr std::size_t kLookAhead = 256;      // reads of the queue that are looked at for neighbours

}  // namespace

Result<std::unique_ptr<StoreThread>> StoreThread::start(std::shared_ptr<StoreAccess> access,
                                                        std::uint32_t depth, const HttpEngineOptions& options,
                                                        std::function<void()> wake) {
  ASSIGN(const CurlLibrary* const curl, curl_library());
  std::unique_ptr<StoreThread> made(new StoreThread(*curl, std::move(access), options, std::move(wake)));
  made->multi_ = curl->multi_init();
  if (made->multi_ == nullptr) return std::unexpected(out_of_memory());
  curl->multi_setopt(made->multi_, CURLMOPT_MAXCONNECTS, 2L * options.requests_max);
  // Room for all reads that may be in flight: from then on, moving one from list to list never fails.
  made->waiting_.reserve(depth);
  made->cancelling_.reserve(depth);
  {
    const MutexLock lock(made->mutex_);
    made->asked_.reserve(depth);
    made->done_.reserve(depth);
    made->cancels_.reserve(depth);
  }
  // The thread takes no signals: those are the trainer's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status started;
  try {
    made->thread_ = std::thread([thread = made.get()] { thread->run(); });
  } catch (const std::system_error& error) {
    started =
        fail(Code::kExhausted, "start of the store thread: refused; raise the limit of processes (ulimit -u)",
             error.code().value());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  TRY(started);
  return made;
}

StoreThread::~StoreThread() {
  close();
  if (thread_.joinable())
    thread_.join();
  else
    end_requests();
}

void StoreThread::close() {
  const MutexLock lock(mutex_);
  if (!thread_.joinable() || std::exchange(closing_, true)) return;
  curl_.multi_wakeup(multi_);  // under the lock: the thread has not heard of it, and so its handle lives
}

/// All that let requests in goes with them: headers, connections.
void StoreThread::end_requests() {
  for (const auto& transfer : transfers_)
    if (transfer->busy) curl_.multi_remove_handle(multi_, transfer->request->handle());
  transfers_.clear();
  if (multi_ != nullptr) curl_.multi_cleanup(std::exchange(multi_, nullptr));
}

void StoreThread::ask(const ReadRequest& request, std::shared_ptr<StoreRoot> root) {
  CHECK(request.pin != nullptr);
  has_asked_ = true;
  const MutexLock lock(mutex_);
  asked_.push_back({request, std::move(root), monotonic_ns()});
}

void StoreThread::cancel(std::uint64_t token) {
  {
    const MutexLock lock(mutex_);
    cancels_.push_back(token);
  }
  curl_.multi_wakeup(multi_);
}

void StoreThread::begin_asked() {
  if (std::exchange(has_asked_, false)) curl_.multi_wakeup(multi_);
}

std::size_t StoreThread::collect(std::span<ReadCompletion> out) {
  const MutexLock lock(mutex_);
  const std::size_t taken = std::min(out.size(), done_.size());
  std::move(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(taken), out.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(taken));
  return taken;
}

void StoreThread::run() {
  pthread_setname_np(pthread_self(), "carya-store");
  while (take_asked()) {
    for (const std::uint64_t token : cancelling_) do_cancel(token);
    begin_requests();
    int running = 0;
    curl_.multi_perform(multi_, &running);
    stop_lost();
    int left = 0;
    while (CURLMsg* const message = curl_.multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      const auto found = std::ranges::find_if(transfers_, [&](const auto& transfer) {
        return transfer->busy && transfer->request->handle() == message->easy_handle;
      });
      CHECK(found != transfers_.end());
      end(**found, code);
    }
    const std::int64_t next_try = begin_requests();
    const std::int64_t wait_ns = std::max<std::int64_t>(0, next_try - monotonic_ns());
    const int wait_ms = static_cast<int>(std::min<std::int64_t>(hedge_late(), wait_ns / 1'000'000 + 1));
    if (std::exchange(given_, false)) wake_();
    curl_.multi_poll(multi_, nullptr, 0, wait_ms, nullptr);
  }
  end_requests();
  ended_ = true;
}

/// Takes what the owner asked for. Returns false when the engine ends.
bool StoreThread::take_asked() {
  const MutexLock lock(mutex_);
  for (Asked& asked : asked_) waiting_.push_back(std::move(asked));
  asked_.clear();
  cancelling_.clear();
  cancelling_.swap(cancels_);
  return !closing_;
}

/// Returns when the next try may begin, by its budget; INT64_MAX: none waits for that.
std::int64_t StoreThread::begin_requests() {
  const std::int64_t now = monotonic_ns();
  std::int64_t next_try = INT64_MAX;
  for (std::size_t index = 0; index < waiting_.size();) {
    StoreRoot& root = *waiting_[index].root;
    const bool again = waiting_[index].request.again;
    const bool has_room = root.under_way < root.window.allowed();
    if (has_room && (!again || root.tries.take(now))) {
      begin(index);  // the next has its place in the queue now
      continue;
    }
    if (has_room) next_try = std::min(next_try, root.tries.due_ns());
    if (++index > kLookAhead) break;
  }
  return next_try;
}

StoreThread::Transfer* StoreThread::free_transfer() {
  for (const auto& transfer : transfers_)
    if (!transfer->busy) return transfer.get();
  auto request = HttpRequest::create(curl_, options_.limits);
  if (!request) return nullptr;
  auto made = std::make_unique<Transfer>();
  made->request = std::move(*request);
  transfers_.push_back(std::move(made));
  return transfers_.back().get();
}

/// Begins a request with waiting_[index] and its neighbours, which leave the queue.
void StoreThread::begin(std::size_t index) {
  const Asked first = waiting_[index];
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
  if (first.request.length == 0) return give(first.request, first.start_ns, {.verdict = Verdict::kGood});
  try {
    begin(first, index);
  } catch (const std::bad_alloc&) {
    give_no_memory(first.request, first.start_ns);
  }
}

/// Throws only before a neighbour has left the queue.
void StoreThread::begin(const Asked& first, std::size_t index) {
  Transfer* const transfer = free_transfer();
  const auto url = access_->parse(first.root->url + "/" + first.request.path);
  if (transfer == nullptr) return give_no_memory(first.request, first.start_ns);
  if (!url)
    return give(first.request, first.start_ns, {.verdict = Verdict::kWrong, .why = url.error().message});
  // Unsigned it would be refused, and stand in the store's records.
  if (access_->waits(*url)) return give(first.request, first.start_ns, {.why = access_->advice(*url)});
  transfer->start_ns.reserve(kLookAhead + 1);
  transfer->root = first.root;
  transfer->ranges.begin(first.request);
  transfer->start_ns.assign(1, first.start_ns);
  // Reads are joined only as far as that leaves no request unused.
  std::uint64_t bytes = first.request.length;
  for (const Asked& asked : waiting_) bytes += asked.request.length;
  const auto allowed = std::max<std::uint64_t>(first.root->window.allowed(), 1);
  const std::uint64_t join_max = std::max(kJoinMin, bytes / allowed);
  for (std::size_t i = index, looked = 0; i < waiting_.size() && looked < kLookAhead; ++looked) {
    const Asked& next = waiting_[i];
    const bool same = next.root == first.root && std::string_view(next.request.path) == first.request.path &&
                      std::string_view(next.request.pin) == first.request.pin;
    if (same && transfer->ranges.add(next.request, join_max)) {
      transfer->start_ns.push_back(next.start_ns);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  transfer->root->hedging.note_begun();
  launch(*transfer, *url, false);
}

void StoreThread::launch(Transfer& transfer, const StoreUrl& url, bool fresh_connection) {
  const ReadRequest& first = transfer.ranges.parts().front();
  const RangeWanted range{.offset = transfer.ranges.offset(),
                          .bytes = transfer.ranges.bytes(),
                          .object_bytes = first.object_bytes,
                          .pin = first.pin};
  Status ready;
  try {
    ready = transfer.request->prepare(
        *access_, {.url = url, .range = range},
        [this, &transfer](std::span<const std::byte> bytes) { return take(transfer, bytes); });
  } catch (const std::bad_alloc&) {
    ready = std::unexpected(out_of_memory());
  }
  CURL* const handle = transfer.request->handle();
  curl_.easy_setopt(handle, CURLOPT_FRESH_CONNECT, fresh_connection ? 1L : 0L);
  transfer.busy = true;
  transfer.answered = transfer.lost = false;
  transfer.begun_ns = monotonic_ns();
  ++transfer.root->under_way;
  StoreTally::add(transfer.root->tally->requests);
  if (!ready || curl_.multi_add_handle(multi_, handle) != CURLM_OK) end(transfer, CURLE_OUT_OF_MEMORY);
}

/// Called by libcurl, in which no request may be ended: a twin is only marked.
bool StoreThread::take(Transfer& transfer, std::span<const std::byte> bytes) {
  if (transfer.lost) return false;
  if (!std::exchange(transfer.answered, true)) {
    transfer.root->hedging.note_answered(monotonic_ns() - transfer.begun_ns);
    if (Transfer* const twin = std::exchange(transfer.twin, nullptr)) {
      twin->twin = nullptr;
      twin->lost = true;
    }
  }
  const std::size_t before = transfer.ranges.whole();
  const std::size_t whole = transfer.ranges.take(bytes);
  StoreTally::add(transfer.root->tally->bytes, bytes.size());
  StoreTally::add(transfer.root->tally->reads, whole - before);
  for (std::size_t i = before; i < whole; ++i)
    give(transfer.ranges.parts()[i], transfer.start_ns[i], {.verdict = Verdict::kGood});
  return true;
}

void StoreThread::stop_lost() {
  for (const auto& transfer : transfers_)
    if (transfer->busy && transfer->lost) stop(*transfer);
}

/// Asks again for what is late. Returns the milliseconds until the next request is.
int StoreThread::hedge_late() {
  const std::int64_t now = monotonic_ns();
  std::int64_t next = kIdleMs * 1'000'000LL;
  for (std::size_t i = 0; i < transfers_.size(); ++i) {  // which grow meanwhile
    Transfer& transfer = *transfers_[i];
    if (!transfer.busy || transfer.answered) continue;
    // One that was asked again is asked anew where that is late too. The first one goes on in any case, so that a store
    // that is slow for all answers some time.
    const bool anew = transfer.twin != nullptr;
    if (anew && transfer.begun_ns <= transfer.twin->begun_ns) continue;
    const auto after = transfer.root->hedging.after();
    if (!after) continue;
    const std::int64_t left = transfer.begun_ns + *after - now;
    if (left <= 0) {
      Transfer& first = anew ? *transfer.twin : transfer;
      if (anew) stop(transfer);
      hedge(first);
    } else {
      next = std::min(next, left);
    }
  }
  return static_cast<int>(next / 1'000'000) + 1;
}

/// Without memory it is not asked again.
void StoreThread::hedge(Transfer& late) {
  try {
    Transfer* const twin = free_transfer();
    const auto url = access_->parse(late.root->url + "/" + std::string(late.ranges.parts().front().path));
    if (twin == nullptr || !url) return;
    twin->ranges = late.ranges;
    twin->start_ns = late.start_ns;
    twin->root = late.root;
    twin->twin = &late;
    late.twin = twin;
    late.root->hedging.note_hedged();
    StoreTally::add(late.root->tally->hedged);
    launch(*twin, *url, true);
  } catch (const std::bad_alloc&) {
  }
}

void StoreThread::count_end(const Transfer& transfer, Verdict verdict) {
  StoreTally& tally = *transfer.root->tally;
  const std::int64_t cpu_ns = thread_cpu_ns();
  tally.cpu_ns.fetch_add(cpu_ns - std::exchange(counted_cpu_ns_, cpu_ns), std::memory_order_relaxed);
  tally.allowed.store(transfer.root->window.allowed(), std::memory_order_relaxed);
  if (verdict == Verdict::kGood) {
    StoreTally::add(tally.answered);
    tally.answered_ns.fetch_add(monotonic_ns() - transfer.begun_ns, std::memory_order_relaxed);
    return;
  }
  StoreTally::add(tally.failed);
  const int status = transfer.request->answer().status;
  if (status == 429 || status == 503) StoreTally::add(tally.throttled);
}

void StoreThread::end(Transfer& transfer, CURLcode code) {
  if (transfer.lost) return stop(transfer);
  RequestEnd how;
  try {
    how = transfer.request->end(code);
  } catch (const std::bad_alloc&) {  // then nothing is said of it
  }
  note_end(transfer, how);
  count_end(transfer, how.verdict);
  if (transfer.twin != nullptr) return stop(transfer);  // which may still be answered
  for (std::size_t i = transfer.ranges.whole(); i < transfer.ranges.parts().size(); ++i)
    give(transfer.ranges.parts()[i], transfer.start_ns[i], how);
  stop(transfer);
}

/// Takes a request out of libcurl's hands: nothing is written for it any more.
void StoreThread::stop(Transfer& transfer) {
  curl_.multi_remove_handle(multi_, transfer.request->handle());
  if (Transfer* const twin = std::exchange(transfer.twin, nullptr)) twin->twin = nullptr;
  transfer.request->forget();
  transfer.busy = transfer.lost = false;
  --transfer.root->under_way;
  transfer.root = nullptr;
}

/// What its end says of the store.
void StoreThread::note_end(Transfer& transfer, const RequestEnd& how) const {
  StoreRoot& root = *transfer.root;
  const std::int64_t now = monotonic_ns();
  if (how.verdict == Verdict::kAgain && transfer.request->answer().status >= 429) root.window.note_busy(now);
  if (how.verdict != Verdict::kGood) return;
  root.tries.note_good(transfer.ranges.parts().front().again);
  const bool waits =
      std::ranges::any_of(waiting_, [&](const Asked& asked) { return asked.root.get() == &root; });
  if (!waits && root.under_way < root.window.allowed()) root.window.note_idle();
  root.window.note_answered(now, now - transfer.begun_ns, transfer.ranges.bytes());
}

/// Ends the read with that token, and the request that it is a part of.
void StoreThread::do_cancel(std::uint64_t token) {
  const RequestEnd cancelled{.why = "given up"};
  const auto waits =
      std::ranges::find(waiting_, token, [](const Asked& asked) { return asked.request.token; });
  if (waits != waiting_.end()) {
    give(waits->request, waits->start_ns, cancelled);
    waiting_.erase(waits);
    return;
  }
  for (const auto& transfer : transfers_) {
    if (!transfer->busy) continue;
    const auto open = transfer->ranges.parts().subspan(transfer->ranges.whole());
    if (std::ranges::find(open, token, &ReadRequest::token) == open.end()) continue;
    for (std::size_t i = 0; i < open.size(); ++i)
      give(open[i], transfer->start_ns[transfer->ranges.whole() + i], cancelled);
    if (transfer->twin != nullptr) stop(*transfer->twin);
    return stop(*transfer);
  }
}

void StoreThread::give(const ReadRequest& part, std::int64_t start_ns, const RequestEnd& end) {
  ReadCompletion completion{
      .token = part.token,
      .ok = end.verdict == Verdict::kGood,
      .bytes = end.verdict == Verdict::kGood ? static_cast<std::int64_t>(part.length) : -1,
      .latency_ns = monotonic_ns() - start_ns};
  if (!completion.ok) {
    completion.code = end.verdict == Verdict::kRefused ? Code::kPermission : Code::kIo;
    completion.sys_errno = end.verdict == Verdict::kRefused ? EACCES : 0;
    try {
      completion.store = std::make_shared<const StoreFailure>(
          StoreFailure{.why = end.why,
                       .final = end.verdict == Verdict::kChanged || end.verdict == Verdict::kWrong,
                       .wait_ns = std::int64_t{end.retry_after_s} * 1'000'000'000});
    } catch (const std::bad_alloc&) {
      completion.sys_errno = ENOMEM;
    }
  }
  hand_over(std::move(completion));
}

void StoreThread::give_no_memory(const ReadRequest& part, std::int64_t start_ns) {
  hand_over({.token = part.token,
             .code = Code::kExhausted,
             .sys_errno = ENOMEM,
             .bytes = -1,
             .latency_ns = monotonic_ns() - start_ns});
}

void StoreThread::hand_over(ReadCompletion completion) {
  const MutexLock lock(mutex_);
  done_.push_back(std::move(completion));  // has room
  given_ = true;
}

}  // namespace carya::io
