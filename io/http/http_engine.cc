#include "io/http/http_engine.h"

#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "io/http/store_thread.h"
#include "io/http/store_url.h"

namespace carya::io {
namespace {

constexpr int kStoreRoots = 1 << 28;  // handles of URLs begin here

/// Requests to one store at the same time, each with a connection, and a second one where it is late: they take an eighth
/// of the process's descriptors at most.
std::uint32_t requests_of(const HttpEngineOptions& options) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return options.requests_max;
  return static_cast<std::uint32_t>(std::clamp<rlim_t>(limit.rlim_cur / 16, 1, options.requests_max));
}

/// Reads of objects go to a thread for each access; it begins with the access's first root, and ends with its last one.
class HttpEngine final : public ReadEngine {
 public:
  HttpEngine(std::unique_ptr<ReadEngine> local, std::uint32_t depth, const HttpEngineOptions& options)
      : local_(std::move(local)), depth_(depth), options_(options) {}

  std::string_view name() const override { return local_->name(); }
  Result<int> add_root(const std::string& directory) override { return add_store(directory, {}); }
  Result<int> add_store(const std::string& url, const StoreUse& use) override;
  void remove_root(int root) override;
  Result<int> add_file(int root, const std::string& path) override { return local_->add_file(root, path); }
  void remove_file(int file) override { local_->remove_file(file); }
  const SourceStamp& file_stamp(int file) const override { return local_->file_stamp(file); }
  Result<SourceStamp> file_stamp_now(int file) const override { return local_->file_stamp_now(file); }
  std::uint32_t room() const override {
    return std::min(local_->room(), depth_ - std::min(depth_, in_flight_));
  }
  std::uint32_t lanes() const override {
    return threads_.empty() ? local_->lanes() : std::max(local_->lanes(), depth_);
  }
  void widen(std::uint32_t waiting) override { local_->widen(waiting); }
  void submit(std::span<const ReadRequest> requests) override;
  void cancel(std::uint64_t token) override;
  std::size_t poll(std::span<ReadCompletion> out, int timeout_ms) override;
  void wake() override { local_->wake(); }

 private:
  struct Root {
    std::shared_ptr<StoreRoot> store;  // null: the place is free
    StoreThread* thread = nullptr;
  };
  Result<StoreThread*> thread_of(const std::shared_ptr<StoreAccess>& access);
  std::size_t collect(std::span<ReadCompletion> out);

  std::unique_ptr<ReadEngine> local_;
  const std::uint32_t depth_;
  const HttpEngineOptions options_;
  // Owner only.
  std::vector<Root> roots_;
  std::vector<ReadRequest> local_requests_;
  std::uint32_t in_flight_ = 0;  // reads of objects, not handed out
  std::vector<std::unique_ptr<StoreThread>> threads_;
  std::vector<std::unique_ptr<StoreThread>> ending_;  // that nobody waits for; they have no reads
};

/// The access's, started where there is none.
Result<StoreThread*> HttpEngine::thread_of(const std::shared_ptr<StoreAccess>& access) {
  std::erase_if(ending_, [](const auto& thread) { return thread->has_ended(); });
  const auto found = std::ranges::find(threads_, access, [](const auto& thread) { return thread->access(); });
  if (found != threads_.end()) return found->get();
  ASSIGN(auto started, StoreThread::start(access, depth_, options_, [this] { local_->wake(); }));
  threads_.push_back(std::move(started));
  ending_.reserve(ending_.size() + threads_.size());  // so that remove_root() never fails
  return threads_.back().get();
}

Result<int> HttpEngine::add_store(const std::string& url, const StoreUse& use) {
  if (!has_scheme(url)) return local_->add_root(url);
  const std::shared_ptr<StoreAccess> access = use.access ? use.access : StoreAccess::current();
  if (!access)
    return fail(Code::kInvalidArgument, url + ": nothing was listed there; open the pipeline first");
  auto place = std::ranges::find(roots_, nullptr, &Root::store);
  if (place == roots_.end()) place = roots_.insert(roots_.end(), Root{});
  auto root = std::make_shared<StoreRoot>(url, requests_of(options_));
  if (use.tally) root->tally = use.tally;
  root->tally->allowed = root->window.allowed();
  ASSIGN(place->thread, thread_of(access));
  place->store = std::move(root);
  return kStoreRoots + static_cast<int>(place - roots_.begin());
}

void HttpEngine::remove_root(int root) {
  if (root < kStoreRoots) return local_->remove_root(root);
  Root& removed = roots_.at(static_cast<std::size_t>(root - kStoreRoots));
  CHECK(removed.store != nullptr);
  StoreThread* const thread = removed.thread;
  removed = {};
  if (std::ranges::find(roots_, thread, &Root::thread) != roots_.end()) return;
  const auto last = std::ranges::find(threads_, thread, &std::unique_ptr<StoreThread>::get);
  (*last)->close();
  ending_.push_back(std::move(*last));
  threads_.erase(last);
}

void HttpEngine::submit(std::span<const ReadRequest> requests) {
  const auto is_local = [](const ReadRequest& request) {
    return request.file >= 0 || request.root < kStoreRoots;
  };
  if (std::ranges::all_of(requests, is_local)) return local_->submit(requests);
  local_requests_.clear();
  for (const ReadRequest& request : requests) {
    if (is_local(request)) {
      local_requests_.push_back(request);
      continue;
    }
    const Root& root = roots_.at(static_cast<std::size_t>(request.root - kStoreRoots));
    root.thread->ask(request, root.store);
    ++in_flight_;
  }
  local_->submit(local_requests_);
  for (const auto& thread : threads_) thread->begin_asked();
}

void HttpEngine::cancel(std::uint64_t token) {
  local_->cancel(token);
  for (const auto& thread : threads_) thread->cancel(token);
}

std::size_t HttpEngine::collect(std::span<ReadCompletion> out) {
  std::size_t count = 0;
  for (const auto& thread : threads_) count += thread->collect(out.subspan(count));
  in_flight_ -= static_cast<std::uint32_t>(count);
  return count;
}

std::size_t HttpEngine::poll(std::span<ReadCompletion> out, int timeout_ms) {
  if (threads_.empty()) return local_->poll(out, timeout_ms);
  std::size_t count = collect(out);
  if (count < out.size()) count += local_->poll(out.subspan(count), count > 0 ? 0 : timeout_ms);
  return count == 0 ? collect(out) : count;
}

}  // namespace

std::unique_ptr<ReadEngine> with_stores(std::unique_ptr<ReadEngine> local, std::uint32_t depth,
                                        const HttpEngineOptions& options) {
  return std::make_unique<HttpEngine>(std::move(local), depth, options);
}

}  // namespace carya::io
