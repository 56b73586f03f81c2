#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "io/http/curl_library.h"
#include "io/http/hedging.h"
#include "io/http/http_engine.h"
#include "io/http/http_request.h"
#include "io/http/joined_ranges.h"
#include "io/http/request_window.h"
#include "io/http/store_access.h"
#include "io/http/store_tally.h"
#include "io/read/read_engine.h"

namespace carya::io {

/// A root that is a URL. The store thread owns what changes.
struct StoreRoot {
  StoreRoot(std::string where, std::uint32_t requests_max) : url(std::move(where)), window(requests_max) {}

  std::string url;
  std::uint32_t under_way = 0;
  RequestWindow window;
  RetryBudget tries;
  Hedging hedging;
  std::shared_ptr<StoreTally> tally = std::make_shared<StoreTally>();  // set before the first read
};

/// Reads objects by one access, with a thread, connections and requests that nobody else has. What belongs to the access
/// ends with it: nothing that let a request in is left to another one.
///
/// Threads: owner only, but for the thread's own.
class StoreThread {
 public:
  /// `wake` is called from the thread when there is something to collect. Errors: kUnsupported (no libcurl), kExhausted.
  static Result<std::unique_ptr<StoreThread>> start(std::shared_ptr<StoreAccess> access, std::uint32_t depth,
                                                    const HttpEngineOptions& options,
                                                    std::function<void()> wake);
  /// Waits for the thread, which may be in a call of libcurl's.
  ~StoreThread();
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;

  const std::shared_ptr<StoreAccess>& access() const { return access_; }
  /// A read that begins with the next begin_asked(). It has a pin; reads that were asked for and not collected are at most
  /// the depth.
  void ask(const ReadRequest& request, std::shared_ptr<StoreRoot> root) EXCLUDES(mutex_);
  void begin_asked();
  /// End the read with that token soon; there may be none.
  void cancel(std::uint64_t token) EXCLUDES(mutex_);
  std::size_t collect(std::span<ReadCompletion> out) EXCLUDES(mutex_);
  /// End soon, without reads. has_ended(): the destructor waits for nothing any more.
  void close() EXCLUDES(mutex_);
  bool has_ended() const { return ended_; }

 private:
  struct Asked {
    ReadRequest request;
    std::shared_ptr<StoreRoot> root;
    std::int64_t start_ns = 0;
  };
  /// A request under way. The thread's.
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

  StoreThread(const CurlLibrary& curl, std::shared_ptr<StoreAccess> access, const HttpEngineOptions& options,
              std::function<void()> wake)
      : curl_(curl), access_(std::move(access)), options_(options), wake_(std::move(wake)) {}
  void run();
  void end_requests();
  bool take_asked();
  std::int64_t begin_requests();
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
  void note_end(Transfer& transfer, const RequestEnd& how) const;
  void give(const ReadRequest& part, std::int64_t start_ns, const RequestEnd& end);
  void give_no_memory(const ReadRequest& part, std::int64_t start_ns);
  void hand_over(ReadCompletion completion);
  Transfer* free_transfer();

  const CurlLibrary& curl_;
  const std::shared_ptr<StoreAccess> access_;
  const HttpEngineOptions options_;
  const std::function<void()> wake_;
  CURLM* multi_ = nullptr;  // the thread's, but for multi_wakeup()
  std::thread thread_;
  bool has_asked_ = false;  // the owner's: since it last woke the thread
  std::atomic<bool> ended_{false};

  Mutex mutex_;
  std::vector<Asked> asked_ GUARDED_BY(mutex_);
  std::vector<std::uint64_t> cancels_ GUARDED_BY(mutex_);
  std::vector<ReadCompletion> done_ GUARDED_BY(mutex_);
  bool closing_ GUARDED_BY(mutex_) = false;

  std::vector<Asked> waiting_;                        // the thread's
  std::vector<std::unique_ptr<Transfer>> transfers_;  // the thread's
  std::vector<std::uint64_t> cancelling_;             // the thread's
  bool given_ = false;                                // the thread's: the owner has not been woken for it
  std::int64_t counted_cpu_ns_ = 0;                   // the thread's: its CPU time that was counted
};

}  // namespace carya::io
