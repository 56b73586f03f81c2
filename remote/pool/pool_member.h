#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/philox.h"
#include "base/poller.h"
#include "remote/pool/latencies.h"
#include "remote/pool/link_rate.h"
#include "remote/pool/name_lookups.h"
#include "remote/pool/pool.h"
#include "remote/protocol/address.h"
#include "remote/protocol/connection.h"
#include "remote/protocol/heartbeat.h"

namespace carya::remote {

/// What a pool's members share.
struct PoolShared {
  const PoolOptions options;
  Hello hello;  // the options', with the newest token; of the thread in run()
  PoolEvents& events;
  Poller poller;
  std::shared_ptr<TlsContext> tls;  // null: plain
  std::shared_ptr<NameLookups> lookups;
  std::atomic<std::uint64_t> worth{0}, weight{Ping::kOne};

  struct Plan {
    std::string about;
    Payload document;
  };
  // Held also while a member calls `events`.
  mutable Mutex mutex;
  std::map<std::uint64_t, Plan> plans GUARDED_BY(mutex);
  /// The member of each request that has no event yet.
  std::unordered_map<std::uint64_t, std::uint64_t> member_of GUARDED_BY(mutex);

  /// Whether a known address may be connected to by these options. The message does not name it. Errors:
  /// kInvalidArgument.
  Status check_allowed(const Address& address) const;
};

/// One worker as its host sees it. Its connection belongs to the thread in run(); what others ask is written
/// down under the pool's mutex and done there.
class PoolMember final : public FrameSink {
 public:
  /// `unknown`: why the address is not known; "" if it is.
  /// `name`: "host:port", looked up again when nobody answers; "": there is nothing to look up. `unknown`: why the
  /// address is not known; "": it is.
  PoolMember(std::uint64_t id, std::string name, Address address, const std::string& unknown,
             PoolShared& shared);
  ~PoolMember() override;

  std::uint64_t id() const { return id_; }

  // Under the mutex, from any thread.
  Status submit(Submission submission);
  /// Its connection is to be asked too, without the mutex; null: the request has not gone.
  std::shared_ptr<Connection> withdraw(std::uint64_t request);
  WorkerStats figures() const;
  bool is_removed() const {
    shared_.mutex.assert_held();
    return removed_;
  }
  void remove() {
    shared_.mutex.assert_held();
    removed_ = true;
  }

  // The thread in run(), without the mutex.
  /// Connects, sends and receives what it can.
  void serve(std::int64_t now_ns);
  /// Sends Pings, and judges who did not answer; a few times per heartbeat.
  void tick(std::int64_t now_ns);
  /// Whether bytes wait that the poller does not know of.
  bool has_buffered() const { return connection_ && connection_->has_buffered(); }
  void end(const Error& reason) { disconnect(reason, 0, false); }

  Result<ReceiveTarget> place(const FrameHeader& header, const std::string& body) override;
  Status take(const FrameHeader& header, const std::string& body, bool placed) override;

 private:
  struct Outstanding {
    std::uint64_t bytes = 0;  // of the window
    std::uint64_t result_bytes = 0;
    std::int64_t submitted_ns = 0;
    bool withdrawn = false;
  };

  Status connect(std::int64_t now_ns);
  void take_found();
  Error explain(const Error& reason) const;
  bool is_through() const;
  void send_written();
  bool has_written() const;
  void watch();
  void disconnect(const Error& reason, std::int64_t now_ns, bool failure);
  std::int64_t next_delay_ns(bool parked);
  Status judge(std::int64_t now_ns);

  Status take_welcome(const std::string& body);
  Status take_registered(const FrameHeader& header, const std::string& body);
  Status take_refusal(const FrameHeader& header, const std::string& body);
  Status take_result(const FrameHeader& header, const std::string& body, bool placed);
  Status take_failed(const FrameHeader& header, const std::string& body);
  /// The request has its answer; whether somebody still wants it.
  Result<bool> finish(std::uint64_t request, std::uint64_t payload_bytes, bool result);
  void renew_rates(std::int64_t now_ns);

  const std::uint64_t id_;
  const std::string name_;
  Address address_;  // changed under the mutex, by the thread in run() alone
  PoolShared& shared_;

  // The thread in run().
  Error unknown_;  // why the address is not known, while it is not
  TlsSession session_;
  Heartbeat heartbeat_;
  bool welcome_ = false;
  bool reads_ = false, writes_ = false;  // what the poller watches
  std::int64_t next_try_ns_ = 0;
  std::int64_t connecting_since_ns_ = 0;
  std::uint64_t attempts_ = 0;
  SampleRng random_;                     // of the jitter
  std::set<std::uint64_t> asked_plans_;  // that were sent on this connection
  LinkRate link_rate_;
  std::int64_t rates_ns_ = 0;
  std::uint64_t rate_results_ = 0, rate_bytes_ = 0;

  // Changed under the mutex, used by run()'s thread without: no other thread changes it.
  std::shared_ptr<Connection> connection_;
  std::map<std::uint64_t, Outstanding> outstanding_ GUARDED_BY(shared_.mutex);
  std::vector<Submission> written_ GUARDED_BY(shared_.mutex);       // not yet given to the connection
  std::vector<std::uint64_t> cancelled_ GUARDED_BY(shared_.mutex);  // the worker has not been told yet
  std::set<std::uint64_t> registered_plans_ GUARDED_BY(shared_.mutex);
  WorkerStats figures_ GUARDED_BY(shared_.mutex);
  Latencies latencies_ GUARDED_BY(shared_.mutex);
  std::uint64_t request_bytes_max_ GUARDED_BY(shared_.mutex) = 0;
  std::uint64_t result_bytes_max_ GUARDED_BY(shared_.mutex) = 0;
  bool removed_ GUARDED_BY(shared_.mutex) = false;
};

}  // namespace carya::remote
