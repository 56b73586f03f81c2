#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "io/http/store_access.h"

namespace carya::io {

class HttpRequest;
struct CurlLibrary;

/// An object as it was found: every later range of it is of this version.
struct StoreObject {
  StoreUrl url;
  std::uint64_t bytes = 0;
  std::string pin;  ///< Answer::pin(); not empty
};

/// An object as a listing has it.
struct ListedObject {
  std::string url;
  std::uint64_t bytes = 0;
  std::string pin;  ///< as Answer::pin() says it of the object
};

/// Questions to stores that a listing waits for. Requests that the store or the network refuses for now are repeated
/// with full jitter for a minute. Each call ends with kClosed soon after its `goes_on` gives false, also while the store
/// drips its answer.
///
/// Threads: thread-safe; each call has a connection of its own, which is kept.
class StoreClient {
 public:
  /// The client of this process, by the environment of now. Errors: kUnsupported (no libcurl).
  /// kPermission (forbid_own()).
  static Result<std::shared_ptr<StoreClient>> shared();
  /// From now on this process asks stores by what clients lend only: shared() and with it StoreAccess::current() fail.
  static void forbid_own();
  /// One that asks by that access. Errors: kUnsupported (no libcurl).
  static Result<std::shared_ptr<StoreClient>> create(std::shared_ptr<StoreAccess> access);
  ~StoreClient();

  const std::shared_ptr<StoreAccess>& access() const { return access_; }

  /// Objects as a listing of a bucket had them just now: look_up() of each takes that once, in place of a request, within
  /// a minute. Those whose version could not be sent are left out. An object that changed meanwhile is told by its reads.
  void remember(const std::vector<ListedObject>& objects);
  /// Size and version of an object. Errors: those of parse_store_url(), kNotFound, kPermission, kIo (the store is away),
  /// kUnsupported (it says no version, so that a change would not be seen).
  Result<StoreObject> look_up(const std::string& url, const GoesOn& goes_on = {});
  /// An object that was looked up before. Errors: those of parse_store_url().
  Result<StoreObject> listed(const std::string& url, std::uint64_t bytes, std::string pin) const;
  /// Fill `out` with the bytes at `offset`. CHECKs that they lie in the object. Errors: kIo (also: it changed).
  Status read(const StoreObject& object, std::uint64_t offset, std::span<std::byte> out,
              const GoesOn& goes_on = {});
  /// The whole answer to a GET with a query, at most `bytes_max` long: a listing.
  Result<std::string> get(const std::string& url, const Query& query, std::size_t bytes_max,
                          const GoesOn& goes_on = {});

 private:
  StoreClient(const CurlLibrary& curl, std::shared_ptr<StoreAccess> access);
  std::optional<ListedObject> take_listed(const std::string& url);
  template <typename Ask>
  Status repeat(const std::string& subject, const StoreUrl& url, const GoesOn& goes_on, const Ask& ask);

  const CurlLibrary& curl_;
  const std::shared_ptr<StoreAccess> access_;
  Mutex mutex_;
  std::vector<std::unique_ptr<HttpRequest>> idle_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, ListedObject> listed_
      GUARDED_BY(mutex_);                          // by URL; of listings not long ago
  std::int64_t listed_ns_ GUARDED_BY(mutex_) = 0;  // when the first of them was
};

/// A wait before the next try, drawn evenly from 0 to a bound that doubles with each try up to `most_ns`.
std::int64_t full_jitter_ns(std::uint32_t tries, std::int64_t first_ns, std::int64_t most_ns);

}  // namespace carya::io
