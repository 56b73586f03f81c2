#include "io/http/store_client.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/escape.h"
#include "base/hash.h"
#include "io/http/curl_fetch.h"
#include "io/http/http_request.h"
#include "io/manifest/manifest_layout.h"

namespace carya::io {
namespace {

std::atomic<bool> own_forbidden{false};

constexpr std::int64_t kReachForNs = 10'000'000'000;
constexpr std::int64_t kTryForNs = 60'000'000'000;
constexpr std::int64_t kListedForNs = 60'000'000'000;
constexpr std::size_t kPinMax = 256;              // as of headers
constexpr std::int64_t kAskEveryNs = 50'000'000;  // of a wait: whether it goes on
constexpr std::int64_t kRefusedForNs = 2'000'000'000, kRefusedMostNs = 300'000'000;
constexpr std::int64_t kRetryFirstNs = 50'000'000, kRetryMostNs = 5'000'000'000;

Code code_of(Verdict verdict, int status) {
  if (verdict == Verdict::kRefused) return Code::kPermission;
  if (verdict == Verdict::kWrong) return Code::kInvalidArgument;
  return verdict == Verdict::kChanged && (status == 404 || status == 410) ? Code::kNotFound : Code::kIo;
}

std::shared_ptr<StoreAccess> access_by(const CurlLibrary& curl, StoreSources sources) {
  Fetch fetch = [&curl, plain = way_of(sources, false),
                 tls = way_of(sources, true)](const FetchQuestion& question) {
    return curl_fetch(curl, question.url.starts_with("https:") ? tls : plain, question);
  };
  return std::make_shared<StoreAccess>(std::move(sources), std::move(fetch));
}

/// False: it does not go on.
bool sleep_while(const GoesOn& goes_on, std::int64_t ns) {
  for (const std::int64_t until_ns = monotonic_ns() + ns;;) {
    if (goes_on && !goes_on()) return false;
    const std::int64_t left_ns = until_ns - monotonic_ns();
    if (left_ns <= 0) return true;
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left_ns, kAskEveryNs)));
  }
}

}  // namespace

std::int64_t full_jitter_ns(std::uint32_t tries, std::int64_t first_ns, std::int64_t most_ns) {
  const std::int64_t bound = std::min(most_ns, first_ns << std::min<std::uint32_t>(tries, 20));
  const std::int64_t now = monotonic_ns();
  const std::uint64_t drawn = hash64(std::as_bytes(std::span(&now, 1)));
  return static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(std::max<std::int64_t>(bound, 1)));
}

StoreClient::StoreClient(const CurlLibrary& curl, std::shared_ptr<StoreAccess> access)
    : curl_(curl), access_(std::move(access)) {}

void StoreClient::forbid_own() {
  own_forbidden = true;
}

Result<std::shared_ptr<StoreClient>> StoreClient::create(std::shared_ptr<StoreAccess> access) {
  ASSIGN(const CurlLibrary* const curl, curl_library());
  return std::shared_ptr<StoreClient>(new StoreClient(*curl, std::move(access)));
}

Result<std::shared_ptr<StoreClient>> StoreClient::shared() {
  static Mutex mutex;
  static std::shared_ptr<StoreClient>* known = nullptr;
  static StoreSources known_sources;
  static pid_t known_pid = 0;
  if (own_forbidden)
    return fail(Code::kPermission,
                "stores: a daemon has no credentials of its own; give daemon=\"embedded\", or a loader that "
                "lends it some");
  ASSIGN(const CurlLibrary* const curl, curl_library());
  StoreSources sources = read_store_sources();
  const MutexLock lock(mutex);
  if (known == nullptr || known_pid != ::getpid() || known_sources != sources) {
    // A forked child has its parent's connections, which only the parent may use or end: it leaves them alone.
    if (known != nullptr && known_pid == ::getpid()) delete known;
    known_pid = ::getpid();
    known_sources = sources;
    auto access = access_by(*curl, std::move(sources));
    known = new std::shared_ptr<StoreClient>(new StoreClient(*curl, access));
    StoreAccess::set_current(std::move(access));
  }
  return *known;
}

StoreClient::~StoreClient() = default;

/// ask(request) until its end is good or final, or nobody waits.
template <typename Ask>
Status StoreClient::repeat(const std::string& subject, const StoreUrl& url, const GoesOn& goes_on,
                           const Ask& ask) {
  std::unique_ptr<HttpRequest> request;
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      request = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!request) {
    ASSIGN(request, HttpRequest::create(curl_, {}));
  }
  const std::int64_t begun_ns = monotonic_ns();
  for (std::uint32_t tries = 0;; ++tries) {
    // Without the grant that is on its way a request would be refused, and be in the store's records as somebody's.
    ASSIGN(const RequestEnd end,
           access_->waits(url) ? RequestEnd{.why = access_->advice(url)} : ask(*request));
    if (end.verdict == Verdict::kGood) break;
    const bool refused = end.verdict == Verdict::kRefused;
    const std::int64_t wait =
        std::max(full_jitter_ns(tries, kRetryFirstNs, refused ? kRefusedMostNs : kRetryMostNs),
                 std::int64_t{end.retry_after_s} * 1'000'000'000);
    // Where a client waits that could ask by itself, a network that this process may not use is soon said.
    const bool unreachable = access_->is_lent() && request->answer().status == 0;
    const std::int64_t most = end.verdict == Verdict::kAgain     ? (unreachable ? kReachForNs : kTryForNs)
                              : end.verdict == Verdict::kRefused ? kRefusedForNs
                                                                 : 0;
    if (monotonic_ns() + wait - begun_ns >= most)
      return fail(code_of(end.verdict, request->answer().status), escaped(subject) + ": " + end.why);
    if (!sleep_while(goes_on, wait))
      return fail(Code::kClosed, escaped(subject) + ": nobody waits for it any more");
  }
  const MutexLock lock(mutex_);
  idle_.push_back(std::move(request));
  return {};
}

void StoreClient::remember(const std::vector<ListedObject>& objects) {
  const MutexLock lock(mutex_);
  const std::int64_t now = monotonic_ns();
  if (now - listed_ns_ > kListedForNs) {
    listed_.clear();
    listed_ns_ = now;
  }
  for (const ListedObject& object : objects)
    if (!object.pin.empty() && object.pin.size() <= kPinMax && is_sendable(object.pin) &&
        object.bytes < kRecordBytesMax)
      listed_.insert_or_assign(object.url, object);
}

std::optional<ListedObject> StoreClient::take_listed(const std::string& url) {
  const MutexLock lock(mutex_);
  const auto found = listed_.find(url);
  if (found == listed_.end()) return std::nullopt;
  ListedObject object = std::move(found->second);
  listed_.erase(found);
  if (monotonic_ns() - listed_ns_ > kListedForNs) return std::nullopt;
  return object;
}

Result<StoreObject> StoreClient::look_up(const std::string& url, const GoesOn& goes_on) {
  StoreObject object;
  ASSIGN(object.url, access_->parse(url));
  if (auto known = take_listed(url)) {
    object.bytes = known->bytes;
    object.pin = std::move(known->pin);
    return object;
  }
  Answer answer;
  const auto ask = [&](HttpRequest& request) -> Result<RequestEnd> {
    TRY(request.prepare(*access_, {.url = object.url, .head = true}, [](auto) { return true; }));
    const RequestEnd end = request.perform(goes_on);
    answer = request.answer();
    return end;
  };
  TRY(repeat(url, object.url, goes_on, ask));
  object.pin = answer.pin();
  if (!answer.length || *answer.length >= kRecordBytesMax || answer.encoded)
    return fail(Code::kUnsupported,
                escaped(url) + ": the store does not say its size; give the URL of a stored object");
  if (object.pin.empty())
    return fail(Code::kUnsupported, escaped(url) +
                                        ": the store says neither an ETag nor a time, so that a change would "
                                        "not be seen; put it behind a server that does");
  object.bytes = *answer.length;
  return object;
}

Result<StoreObject> StoreClient::listed(const std::string& url, std::uint64_t bytes, std::string pin) const {
  ASSIGN(StoreUrl parsed, access_->parse(url));
  return StoreObject{.url = std::move(parsed), .bytes = bytes, .pin = std::move(pin)};
}

Status StoreClient::read(const StoreObject& object, std::uint64_t offset, std::span<std::byte> out,
                         const GoesOn& goes_on) {
  CHECK(offset <= object.bytes && out.size() <= object.bytes - offset);
  if (out.empty()) return {};
  return repeat(object.url.url(), object.url, goes_on, [&](HttpRequest& request) -> Result<RequestEnd> {
    std::size_t filled = 0;
    const RangeWanted range{
        .offset = offset, .bytes = out.size(), .object_bytes = object.bytes, .pin = object.pin};
    TRY(request.prepare(*access_, {.url = object.url, .range = range}, [&](std::span<const std::byte> bytes) {
      std::memcpy(out.data() + filled, bytes.data(), bytes.size());  // never more than the range
      filled += bytes.size();
      return true;
    }));
    return request.perform(goes_on);
  });
}

Result<std::string> StoreClient::get(const std::string& url, const Query& query, std::size_t bytes_max,
                                     const GoesOn& goes_on) {
  ASSIGN(const StoreUrl parsed, access_->parse(url));
  std::string body;
  bool too_long = false;
  const auto ask = [&](HttpRequest& request) -> Result<RequestEnd> {
    body.clear();
    TRY(request.prepare(*access_, {.url = parsed, .query = query}, [&](std::span<const std::byte> bytes) {
      too_long = body.size() + bytes.size() > bytes_max;
      if (!too_long) body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return !too_long;
    }));
    RequestEnd end = request.perform(goes_on);
    if (too_long)
      end = {.verdict = Verdict::kWrong, .why = "the answer is too long; give the URL of a bucket"};
    return end;
  };
  TRY(repeat(url, parsed, goes_on, ask));
  return body;
}

}  // namespace carya::io
