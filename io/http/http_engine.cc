// 1. The owner puts reads into `asked_` and wakes the store thread.
// 2. The store thread moves them to `waiting_`, in order, and begins requests while the store of each allows one more. A
//    request takes further reads of its object from the queue where they lie near (JoinedRanges).
// 3. libcurl hands over headers, then bytes. The bytes are written only after the headers were judged; a part that is
//    whole becomes a completion at once.
// 4. When a request ends, the parts that are not whole get its verdict. The read scheduler tries them again.
// 5. A request that is not answered for unusually long is asked again on another connection (hedging.h). The first of the
//    two that is answered writes; the other one is ended before libcurl hands over a byte of it.
// 6. Completions lie in `done_`; after each look at all sockets, the local engine's wake() ends the owner's poll().
#include "io/http/http_engine.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "io/http/curl_library.h"
#include "io/http/hedging.h"
#include "io/http/http_request.h"
#include "io/http/joined_ranges.h"
#include "io/http/store_access.h"
#include "io/http/store_tally.h"

namespace carya::io {
namespace {

constexpr int kStoreRoots = 1 << 28;  // handles of URLs begin here
constexpr int kIdleMs = 60'000;
constexpr std::uint64_t kJoinMin = 1 << 20;  // so far reads are joined also where there are requests to spare
constexpr std::size_t kLookAhead = 256;      // reads of the queue that are looked at for neighbours
constexpr std::int64_t kHalveAgainNs = 200'000'000;

/// A root that is a URL. The store thread owns what changes.
struct StoreRoot {
  std::string url;
  std::shared_ptr<StoreAccess> access;
  std::uint32_t under_way = 0;
  double allowed = 0;  // requests at the same time
  Hedging hedging;
  std::int64_t halved_ns = 0;
  std::shared_ptr<StoreTally> tally = std::make_shared<StoreTally>();  // set before the first read
};

struct Asked {
  ReadRequest request;
  std::shared_ptr<StoreRoot> root;
  std::int64_t start_ns = 0;
};

class HttpEngine final : public ReadEngine {
 public:
  HttpEngine(std::unique_ptr<ReadEngine> local, std::uint32_t depth, const HttpEngineOptions& options)
      : local_(std::move(local)), depth_(depth), options_(options) {}
  ~HttpEngine() override;

  std::string_view name() const override { return local_->name(); }
  Result<int> add_root(const std::string& directory) override;
  void count_for(int root, std::shared_ptr<StoreTally> tally) override;
  void remove_root(int root) override;
  Result<int> add_file(int root, const std::string& path) override { return local_->add_file(root, path); }
  void remove_file(int file) override { local_->remove_file(file); }
  const SourceStamp& file_stamp(int file) const override { return local_->file_stamp(file); }
  Result<SourceStamp> file_stamp_now(int file) const override { return local_->file_stamp_now(file); }
  std::uint32_t room() const override {
    return std::min(local_->room(), depth_ - std::min(depth_, in_flight_));
  }
  std::uint32_t lanes() const override {
    return thread_.joinable() ? std::max(local_->lanes(), depth_) : local_->lanes();
  }
  void widen(std::uint32_t waiting) override { local_->widen(waiting); }
  void submit(std::span<const ReadRequest> requests) override;
  void cancel(std::uint64_t token) override;
  std::size_t poll(std::span<ReadCompletion> out, int timeout_ms) override;
  void wake() override { local_->wake(); }

 private:
  /// A request under way. The store thread's.
  struct Transfer {
    std::unique_ptr<HttpRequest> request;
    std::shared_ptr<StoreRoot> root;
    std::vector<std::int64_t> start_ns;  // of each part
    JoinedRanges ranges;
    bool busy = false;
    std::int64_t begun_ns = 0;
    bool answered = false;     // a byte of it was written
    Transfer* twin = nullptr;  // asks for the same, while neither is answered
    bool lost = false;         // its twin was answered: no byte of it is written any more
  };

  Status start();
  void run();
  bool take_asked();
  void begin_requests();
  void begin(std::size_t index);
  void begin(const Asked& first, std::size_t index);
  void launch(Transfer& transfer, const StoreUrl& url, bool fresh_connection);
  bool take(Transfer& transfer, std::span<const std::byte> bytes);
  int hedge_late();
  void hedge(Transfer& late);
  void stop_lost();
  void end(Transfer& transfer, CURLcode code);
  void count_end(const Transfer& transfer, Verdict verdict);
  void stop(Transfer& transfer);
  void do_cancel(std::uint64_t token);
  void answered(StoreRoot& root, bool busy) const;
  void give(const ReadRequest& part, std::int64_t start_ns, const RequestEnd& end);
  void give_no_memory(const ReadRequest& part, std::int64_t start_ns);
  void hand_over(ReadCompletion completion);
  Transfer* free_transfer();

  std::unique_ptr<ReadEngine> local_;
  const std::uint32_t depth_;
  const HttpEngineOptions options_;
  const CurlLibrary* curl_ = nullptr;              // null: no URL was opened
  CURLM* multi_ = nullptr;                         // the store thread's, but for multi_wakeup()
  std::vector<std::shared_ptr<StoreRoot>> roots_;  // owner only; null: free
  std::vector<ReadRequest> local_requests_;        // owner only
  std::uint32_t in_flight_ = 0;                    // owner only: reads of objects, not handed out
  std::thread thread_;

  Mutex mutex_;
  std::vector<Asked> asked_ GUARDED_BY(mutex_);
  std::vector<std::uint64_t> cancels_ GUARDED_BY(mutex_);
  std::vector<ReadCompletion> done_ GUARDED_BY(mutex_);
  bool closing_ GUARDED_BY(mutex_) = false;

  std::vector<Asked> waiting_;                        // the store thread's
  std::vector<std::unique_ptr<Transfer>> transfers_;  // the store thread's
  std::vector<std::uint64_t> cancelling_;             // the store thread's
  bool given_ = false;               // the store thread's: the owner has not been woken for it
  std::int64_t counted_cpu_ns_ = 0;  // the store thread's: its CPU time that was counted
};

HttpEngine::~HttpEngine() {
  if (thread_.joinable()) {
    {
      const MutexLock lock(mutex_);
      closing_ = true;
    }
    curl_->multi_wakeup(multi_);
    thread_.join();
  }
  for (const auto& transfer : transfers_)
    if (transfer->busy) curl_->multi_remove_handle(multi_, transfer->request->handle());
  transfers_.clear();
  if (multi_ != nullptr) curl_->multi_cleanup(multi_);
}

Status HttpEngine::start() {
  if (thread_.joinable()) return {};
  ASSIGN(curl_, curl_library());
  if (multi_ == nullptr) multi_ = curl_->multi_init();
  if (multi_ == nullptr) return std::unexpected(out_of_memory());
  curl_->multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 2L * options_.requests_max);
  // Room for all reads that may be in flight: from then on, moving one from list to list never fails.
  waiting_.reserve(depth_);
  cancelling_.reserve(depth_);
  {
    const MutexLock lock(mutex_);
    asked_.reserve(depth_);
    done_.reserve(depth_);
    cancels_.reserve(depth_);
  }
  // The thread takes no signals: those are the trainer's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status started;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    started =
        fail(Code::kExhausted, "start of the store thread: refused; raise the limit of processes (ulimit -u)",
             error.code().value());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

Result<int> HttpEngine::add_root(const std::string& directory) {
  if (!has_scheme(directory)) return local_->add_root(directory);
  TRY(start());
  auto root = std::make_shared<StoreRoot>();
  root->url = directory;
  root->access = StoreAccess::current();
  if (!root->access)
    return fail(Code::kInvalidArgument, directory + ": nothing was listed there; open the pipeline first");
  root->allowed = options_.requests_max;
  auto place = std::ranges::find(roots_, nullptr);
  if (place == roots_.end()) place = roots_.insert(roots_.end(), nullptr);
  *place = std::move(root);
  return kStoreRoots + static_cast<int>(place - roots_.begin());
}

void HttpEngine::count_for(int root, std::shared_ptr<StoreTally> tally) {
  if (root < kStoreRoots || tally == nullptr) return;
  StoreRoot& counted = *roots_.at(static_cast<std::size_t>(root - kStoreRoots));
  counted.tally = std::move(tally);
  counted.tally->allowed = options_.requests_max;
}

void HttpEngine::remove_root(int root) {
  if (root < kStoreRoots) return local_->remove_root(root);
  CHECK(roots_.at(static_cast<std::size_t>(root - kStoreRoots)) != nullptr);
  roots_[static_cast<std::size_t>(root - kStoreRoots)] = nullptr;
}

void HttpEngine::submit(std::span<const ReadRequest> requests) {
  const auto is_local = [](const ReadRequest& request) {
    return request.file >= 0 || request.root < kStoreRoots;
  };
  if (std::ranges::all_of(requests, is_local)) return local_->submit(requests);
  local_requests_.clear();
  const std::int64_t now = monotonic_ns();
  {
    const MutexLock lock(mutex_);
    for (const ReadRequest& request : requests) {
      if (is_local(request)) {
        local_requests_.push_back(request);
        continue;
      }
      CHECK(request.pin != nullptr);
      asked_.push_back({request, roots_.at(static_cast<std::size_t>(request.root - kStoreRoots)), now});
      ++in_flight_;
    }
  }
  local_->submit(local_requests_);
  curl_->multi_wakeup(multi_);
}

void HttpEngine::cancel(std::uint64_t token) {
  local_->cancel(token);
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    cancels_.push_back(token);
  }
  curl_->multi_wakeup(multi_);
}

std::size_t HttpEngine::poll(std::span<ReadCompletion> out, int timeout_ms) {
  if (!thread_.joinable()) return local_->poll(out, timeout_ms);
  std::size_t count = 0;
  const auto collect = [&] {
    const MutexLock lock(mutex_);
    const std::size_t taken = std::min(out.size() - count, done_.size());
    std::move(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(taken),
              out.begin() + static_cast<std::ptrdiff_t>(count));
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(taken));
    in_flight_ -= static_cast<std::uint32_t>(taken);
    count += taken;
  };
  collect();
  if (count < out.size()) count += local_->poll(out.subspan(count), count > 0 ? 0 : timeout_ms);
  if (count == 0) collect();
  return count;
}

void HttpEngine::run() {
  while (take_asked()) {
    for (const std::uint64_t token : cancelling_) do_cancel(token);
    begin_requests();
    int running = 0;
    curl_->multi_perform(multi_, &running);
    stop_lost();
    int left = 0;
    while (CURLMsg* const message = curl_->multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      const auto found = std::ranges::find_if(transfers_, [&](const auto& transfer) {
        return transfer->busy && transfer->request->handle() == message->easy_handle;
      });
      CHECK(found != transfers_.end());
      end(**found, code);
    }
    begin_requests();
    const int wait_ms = hedge_late();
    if (std::exchange(given_, false)) local_->wake();
    curl_->multi_poll(multi_, nullptr, 0, wait_ms, nullptr);
  }
}

/// Takes what the owner asked for. Returns false when the engine ends.
bool HttpEngine::take_asked() {
  const MutexLock lock(mutex_);
  for (Asked& asked : asked_) waiting_.push_back(std::move(asked));
  asked_.clear();
  cancelling_.clear();
  cancelling_.swap(cancels_);
  return !closing_;
}

void HttpEngine::begin_requests() {
  for (std::size_t index = 0; index < waiting_.size();) {
    const StoreRoot& root = *waiting_[index].root;
    if (root.under_way < static_cast<std::uint32_t>(root.allowed)) {
      begin(index);  // the next has its place in the queue now
    } else if (++index > kLookAhead) {
      break;
    }
  }
}

HttpEngine::Transfer* HttpEngine::free_transfer() {
  for (const auto& transfer : transfers_)
    if (!transfer->busy) return transfer.get();
  auto request = HttpRequest::create(*curl_, options_.limits);
  if (!request) return nullptr;
  auto made = std::make_unique<Transfer>();
  made->request = std::move(*request);
  transfers_.push_back(std::move(made));
  return transfers_.back().get();
}

/// Begins a request with waiting_[index] and its neighbours, which leave the queue.
void HttpEngine::begin(std::size_t index) {
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
void HttpEngine::begin(const Asked& first, std::size_t index) {
  Transfer* const transfer = free_transfer();
  const auto url = first.root->access->parse(first.root->url + "/" + first.request.path);
  if (transfer == nullptr) return give_no_memory(first.request, first.start_ns);
  if (!url)
    return give(first.request, first.start_ns, {.verdict = Verdict::kWrong, .why = url.error().message});
  transfer->start_ns.reserve(kLookAhead + 1);
  transfer->root = first.root;
  transfer->ranges.begin(first.request);
  transfer->start_ns.assign(1, first.start_ns);
  // Reads are joined only as far as that leaves no request unused.
  std::uint64_t bytes = first.request.length;
  for (const Asked& asked : waiting_) bytes += asked.request.length;
  const auto allowed = std::max<std::uint64_t>(static_cast<std::uint64_t>(first.root->allowed), 1);
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

void HttpEngine::launch(Transfer& transfer, const StoreUrl& url, bool fresh_connection) {
  const ReadRequest& first = transfer.ranges.parts().front();
  const RangeWanted range{.offset = transfer.ranges.offset(),
                          .bytes = transfer.ranges.bytes(),
                          .object_bytes = first.object_bytes,
                          .pin = first.pin};
  Status ready;
  try {
    ready = transfer.request->prepare(
        *transfer.root->access, {.url = url, .range = range},
        [this, &transfer](std::span<const std::byte> bytes) { return take(transfer, bytes); });
  } catch (const std::bad_alloc&) {
    ready = std::unexpected(out_of_memory());
  }
  CURL* const handle = transfer.request->handle();
  curl_->easy_setopt(handle, CURLOPT_FRESH_CONNECT, fresh_connection ? 1L : 0L);
  transfer.busy = true;
  transfer.answered = transfer.lost = false;
  transfer.begun_ns = monotonic_ns();
  ++transfer.root->under_way;
  StoreTally::add(transfer.root->tally->requests);
  if (!ready || curl_->multi_add_handle(multi_, handle) != CURLM_OK) end(transfer, CURLE_OUT_OF_MEMORY);
}

/// Called by libcurl, in which no request may be ended: a twin is only marked.
bool HttpEngine::take(Transfer& transfer, std::span<const std::byte> bytes) {
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

void HttpEngine::stop_lost() {
  for (const auto& transfer : transfers_)
    if (transfer->busy && transfer->lost) stop(*transfer);
}

/// Asks again for what is late. Returns the milliseconds until the next request is.
int HttpEngine::hedge_late() {
  const std::int64_t now = monotonic_ns();
  std::int64_t next = kIdleMs * 1'000'000LL;
  for (std::size_t i = 0; i < transfers_.size(); ++i) {  // which grow meanwhile
    Transfer& transfer = *transfers_[i];
    if (!transfer.busy || transfer.answered || transfer.twin != nullptr) continue;
    const auto after = transfer.root->hedging.after();
    if (!after) continue;
    const std::int64_t left = transfer.begun_ns + *after - now;
    if (left <= 0)
      hedge(transfer);
    else
      next = std::min(next, left);
  }
  return static_cast<int>(next / 1'000'000) + 1;
}

/// Without memory it is not asked again.
void HttpEngine::hedge(Transfer& late) {
  try {
    Transfer* const twin = free_transfer();
    const auto url =
        late.root->access->parse(late.root->url + "/" + std::string(late.ranges.parts().front().path));
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

void HttpEngine::count_end(const Transfer& transfer, Verdict verdict) {
  StoreTally& tally = *transfer.root->tally;
  const std::int64_t cpu_ns = thread_cpu_ns();
  tally.cpu_ns.fetch_add(cpu_ns - std::exchange(counted_cpu_ns_, cpu_ns), std::memory_order_relaxed);
  tally.allowed.store(static_cast<std::uint32_t>(transfer.root->allowed), std::memory_order_relaxed);
  if (verdict == Verdict::kGood) {
    StoreTally::add(tally.answered);
    tally.answered_ns.fetch_add(monotonic_ns() - transfer.begun_ns, std::memory_order_relaxed);
    return;
  }
  StoreTally::add(tally.failed);
  const int status = transfer.request->answer().status;
  if (status == 429 || status == 503) StoreTally::add(tally.throttled);
}

void HttpEngine::end(Transfer& transfer, CURLcode code) {
  if (transfer.lost) return stop(transfer);
  RequestEnd how;
  try {
    how = transfer.request->end(code);
  } catch (const std::bad_alloc&) {  // then nothing is said of it
  }
  answered(*transfer.root, how.verdict == Verdict::kAgain && transfer.request->answer().status >= 429);
  count_end(transfer, how.verdict);
  if (transfer.twin != nullptr) return stop(transfer);  // which may still be answered
  for (std::size_t i = transfer.ranges.whole(); i < transfer.ranges.parts().size(); ++i)
    give(transfer.ranges.parts()[i], transfer.start_ns[i], how);
  stop(transfer);
}

/// Takes a request out of libcurl's hands: nothing is written for it any more.
void HttpEngine::stop(Transfer& transfer) {
  curl_->multi_remove_handle(multi_, transfer.request->handle());
  if (Transfer* const twin = std::exchange(transfer.twin, nullptr)) twin->twin = nullptr;
  transfer.busy = transfer.lost = false;
  --transfer.root->under_way;
  transfer.root = nullptr;
}

/// Additive increase, multiplicative decrease; a burst of refusals halves once.
void HttpEngine::answered(StoreRoot& root, bool busy) const {
  const std::int64_t now = monotonic_ns();
  if (!busy) {
    root.allowed = std::min<double>(options_.requests_max, root.allowed + 1 / root.allowed);
  } else if (now - root.halved_ns > kHalveAgainNs) {
    root.allowed = std::max(1.0, root.allowed / 2);
    root.halved_ns = now;
  }
}

/// Ends the read with that token, and the request that it is a part of.
void HttpEngine::do_cancel(std::uint64_t token) {
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

void HttpEngine::give(const ReadRequest& part, std::int64_t start_ns, const RequestEnd& end) {
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

void HttpEngine::give_no_memory(const ReadRequest& part, std::int64_t start_ns) {
  hand_over({.token = part.token,
             .code = Code::kExhausted,
             .sys_errno = ENOMEM,
             .bytes = -1,
             .latency_ns = monotonic_ns() - start_ns});
}

void HttpEngine::hand_over(ReadCompletion completion) {
  const MutexLock lock(mutex_);
  done_.push_back(std::move(completion));  // has room
  given_ = true;
}

}  // namespace

std::unique_ptr<ReadEngine> with_stores(std::unique_ptr<ReadEngine> local, std::uint32_t depth,
                                        const HttpEngineOptions& options) {
  return std::make_unique<HttpEngine>(std::move(local), depth, options);
}

}  // namespace carya::io
