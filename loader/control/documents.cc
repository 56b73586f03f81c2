#include "loader/control/documents.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "loader/wire/number_ranges.h"
#include "remote/protocol/archive.h"

namespace carya::archive {

using namespace loader;  // NOLINT(google-build-using-namespace): whose documents these are

CARYA_FIELDS(Hello) {
  a("client", d.client);
}
CARYA_FIELDS(Welcome) {
  a("daemon", d.daemon), a("pid", d.pid), a("instance", d.instance), a("draining", d.draining);
}
CARYA_FIELDS(ArrayInfo) {
  a("field", d.field), a("row_bytes", d.row_bytes), a("rows", d.rows);
}
CARYA_FIELDS(StreamShape) {
  a("records", d.records), a("global_size", d.global_size), a("world_size", d.world_size), a("rank", d.rank);
  a("drop_last", d.drop_last), a("pad_last", d.pad_last);
}
CARYA_FIELDS(DecodeIndexOptions) {
  a("wanted", d.wanted), a("spacing", d.spacing), a("budget_share", d.budget_share);
}
CARYA_FIELDS(autotune::Prices) {
  a("host", d.host_per_hour), a("worker", d.worker_per_hour);
}
CARYA_FIELDS(autotune::PlacementGoal) {
  a("objective", d.objective), a("target", d.target), a("workers_max", d.workers_max);
  a("workers_cost_per_hour_max", d.workers_cost_per_hour_max);
}
CARYA_FIELDS(RemoteOptions) {
  a("workers", d.workers), a("dns", d.dns), a("fleet_command", d.fleet_command);
  a("fleet_options", d.fleet_options), a("certificate", d.certificate), a("key", d.key),
      a("authority", d.authority);
  a("server_name", d.server_name), a("insecure", d.insecure), a("token", d.token), a("prices", d.prices);
  a("user", d.user);
  a("goal", d.goal), a("worker_start_s", d.worker_start_s), a("worker_billed_s_min", d.worker_billed_s_min);
  a("workers_fixed", d.workers_fixed), a("cut_fixed", d.cut_fixed), a("verify", d.verify);
}
CARYA_FIELDS(CacheFolder) {
  a("path", d.path), a("bytes", d.bytes);
}
CARYA_FIELDS(CacheOptions) {
  a("mode", d.mode), a("bytes", d.bytes), a("share", d.share), a("after", d.after);
  a("disk", d.disk), a("shared", d.shared), a("form", d.form);
  a("write_bytes_per_day", d.write_bytes_per_day);
}
CARYA_FIELDS(StorePricesGiven) {
  a("per_1000_requests", d.per_1000_requests), a("per_gb", d.per_gb);
}
CARYA_FIELDS(JobOptions) {
  a("rank", d.rank), a("world_size", d.world_size), a("epochs", d.epochs), a("threads", d.threads);
  a("weight", d.weight), a("node", d.node);
  a("slots", d.slots), a("read_ahead_bytes", d.read_ahead_bytes), a("on_error", d.on_error),
      a("seed", d.seed);
  a("prefetch_epochs", d.prefetch_epochs), a("io_timeout_s", d.io_timeout_s), a("io_engine", d.io_engine);
  a("epoch", d.epoch), a("position", d.position), a("label_int32", d.label_int32);
  a("decode_index", d.decode_index), a("reorder", d.reorder), a("order", d.order);
  a("remote", d.remote), a("cache", d.cache), a("store_prices", d.store_prices);
}
CARYA_FIELDS(AttachRequest) {
  a("share", d.share), a("share_jobs", d.share_jobs);
  a("job", d.job), a("replica", d.replica), a("replicas", d.replicas), a("options", d.options);
  a("cache_dir", d.cache_dir), a("arrays", d.arrays);
}
CARYA_FIELDS(Attached) {
  a("job", d.job), a("dataset", d.dataset), a("shape", d.shape), a("seed", d.seed), a("threads", d.threads);
  a("slots", d.slots), a("session", d.session), a("class_names", d.class_names);
  a("skipped_count", d.skipped_count), a("skipped_examples", d.skipped_examples), a("order", d.order);
  a("traced_as", d.traced_as);
}
CARYA_FIELDS(io::StoreSettings) {
  a("region", d.region), a("endpoint", d.endpoint), a("google_endpoint", d.google_endpoint);
  a("azure_endpoint", d.azure_endpoint);
}
CARYA_FIELDS(io::StoreWay) {
  a("authority", d.authority), a("proxy", d.proxy), a("no_proxy", d.no_proxy);
}
CARYA_FIELDS(io::StoreTerms) {
  a("settings", d.settings), a("plain", d.plain), a("tls", d.tls);
}
CARYA_FIELDS(io::Grant) {
  a("access_key", d.access_key), a("secret_key", d.secret_key), a("token", d.token);
  a("expires_s", d.expires_s), a("in_query", d.in_query);
}
CARYA_FIELDS(io::LentGrant) {
  a("account", d.account), a("grant", d.grant), a("why", d.why), a("for_now", d.for_now);
}
CARYA_FIELDS(LendRequest) {
  a("terms", d.terms), a("grants", d.grants);
}
CARYA_FIELDS(WantGrants) {
  a("refused", d.refused);
}
CARYA_FIELDS(SeekRequest) {
  a("epoch", d.epoch), a("position", d.position);
}
CARYA_FIELDS(SessionIs) {
  a("session", d.session);
}
CARYA_FIELDS(PolicyRequest) {
  a("on_error", d.on_error);
}
CARYA_FIELDS(PolicySet) {
  a("changed", d.changed);
}
CARYA_FIELDS(TakeFoundRequest) {
  a("sequence", d.sequence);
}
CARYA_FIELDS(DetachRequest) {
  a("demand_per_s", d.demand_per_s);
}
CARYA_FIELDS(StopJobRequest) {
  a("job", d.job);
}
CARYA_FIELDS(LogsRequest) {
  a("lines", d.lines);
}
CARYA_FIELDS(LogsAre) {
  a("lines", d.lines);
}
CARYA_FIELDS(TraceRequest) {
  a("session", d.session), a("thread_events", d.thread_events), a("job", d.job);
}
CARYA_FIELDS(TraceIs) {
  a("session", d.session), a("bytes", d.bytes);
}
CARYA_FIELDS(MetricsAre) {
  a("text", d.text);
}
CARYA_FIELDS(Progress) {
  a("records", d.records);
}
CARYA_FIELDS(ErrorIs) {
  a("error", d.error);
}
CARYA_FIELDS(RecordError) {
  a("error", d.error), a("epoch", d.epoch), a("position", d.position), a("record", d.record),
      a("path", d.path);
  a("member", d.member), a("offset", d.offset), a("stage", d.stage), a("reason", d.reason);
  a("substitute", d.substitute);
}
CARYA_FIELDS(DeliveredErrors) {
  a("quarantine", d.quarantine), a("failure", d.failure);
}
CARYA_FIELDS(transforms::OpProfile) {
  a("name", d.name), a("samples", d.samples), a("timed_samples", d.timed_samples), a("cpu_ns", d.cpu_ns);
  a("bytes_in", d.bytes_in), a("bytes_out", d.bytes_out), a("ops", d.ops), a("pictures", d.pictures);
  a("height", d.height), a("width", d.width);
}
CARYA_FIELDS(OrderProfile) {
  a("order", d.order), a("stages", d.stages), a("measured_at_s", d.measured_at_s);
}
CARYA_FIELDS(transforms::DecodePaths) {
  a("own", d.own), a("turbo", d.turbo), a("warnings", d.warnings), a("indexed", d.indexed);
  a("packed", d.packed);
  a("scan_bytes", d.scan_bytes), a("pixels", d.pixels);
}
CARYA_FIELDS(StorePrices) {
  a("per_1000_requests", d.per_1000_requests), a("per_gb", d.per_gb);
}
CARYA_FIELDS(StoreFigures) {
  a("source", d.source), a("requests", d.requests), a("bytes", d.bytes), a("reads", d.reads);
  a("failed", d.failed), a("throttled", d.throttled), a("hedged", d.hedged), a("answered", d.answered);
  a("answered_ns", d.answered_ns), a("cpu_ns", d.cpu_ns), a("allowed", d.allowed);
  a("epoch_records", d.epoch_records), a("epoch_reads", d.epoch_reads), a("epoch_bytes", d.epoch_bytes);
  a("prices", d.prices);
}
CARYA_FIELDS(SchedulerStats) {
  a("batches", d.batches), a("samples", d.samples), a("bytes_read", d.bytes_read), a("reads", d.reads);
  a("read_retries", d.read_retries), a("replaced", d.replaced), a("masked", d.masked), a("epoch", d.epoch),
      a("position", d.position);
  a("read_latency_ns", d.read_latency_ns), a("reading_ns", d.reading_ns),
      a("buffered_bytes", d.buffered_bytes);
  a("buffered_bytes_max", d.buffered_bytes_max), a("ops", d.ops), a("decodes", d.decodes);
  a("cached_reads", d.cached_reads), a("cached_bytes", d.cached_bytes);
  a("plan_switches", d.plan_switches), a("chunk_rows", d.flow.chunk_rows);
  a("ahead_chunks", d.flow.ahead_chunks), a("remote_chunks", d.remote_chunks);
  a("remote_bytes", d.remote_bytes), a("cores", d.cores), a("stores", d.stores);
}
CARYA_FIELDS(shm::SlotRingStats) {
  a("bytes", d.bytes), a("huge_bytes", d.huge_bytes), a("free", d.free), a("filling", d.filling);
  a("ready", d.ready), a("held", d.held);
}
CARYA_FIELDS(DecodeIndexStats) {
  a("on", d.on), a("reason", d.reason), a("spacing", d.spacing), a("entries", d.entries);
  a("points_known_share", d.points_known_share), a("bytes", d.bytes), a("hits", d.hits), a("made", d.made);
  a("refused", d.refused), a("mismatches", d.mismatches), a("mismatch_record", d.mismatch_record);
  a("dropped", d.dropped);
}
CARYA_FIELDS(StreamRates) {
  a("read_latency_s", d.read_latency_s), a("read_bytes_per_s", d.read_bytes_per_s);
  a("reads_at_s", d.reads_at_s), a("demand_per_s", d.demand_per_s), a("demand_at_s", d.demand_at_s);
}
CARYA_FIELDS(LocalPressure) {
  a("cpu", d.cpu), a("io", d.io), a("memory", d.memory), a("runnable", d.runnable), a("cores", d.cores);
  a("throttled_share", d.throttled_share), a("throttled_s", d.throttled_s);
}
CARYA_FIELDS(NodeShare) {
  a("node", d.node), a("share", d.share);
}
CARYA_FIELDS(StreamStats) {
  if constexpr (!std::is_const_v<Given>) a("production", d.scheduler);  // the earlier name is only read
  a("scheduler", d.scheduler), a("ring", d.ring), a("io_engine", d.io_engine), a("threads", d.threads);
  a("slots", d.slots), a("slots_node", d.slots_node), a("slots_nodes", d.slots_nodes);
  a("decode_index", d.decode_index), a("order", d.order), a("indices", d.indices),
      a("plan_lines", d.plan_lines);
  a("plan_profile", d.plan_profile), a("rates", d.rates), a("pressure", d.pressure);
  a("placement", d.placement), a("cache", d.cache);
}
CARYA_FIELDS(WatchRequest) {
  a("job", d.job);
}
CARYA_FIELDS(RankWatched) {
  a("rank", d.rank), a("stats", d.stats), a("explanation", d.explanation), a("broken", d.broken);
}
CARYA_FIELDS(TurnRequest) {
  a("weight", d.weight), a("used_ns", d.used_ns), a("wants", d.wants);
}
CARYA_FIELDS(TurnIs) {
  a("threads", d.threads), a("alone", d.alone);
}
CARYA_FIELDS(WatchIs) {
  a("ranks", d.ranks);
}
CARYA_FIELDS(ReaderStatus) {
  a("pid", d.pid), a("replica", d.replica), a("held", d.held), a("attached_s", d.attached_s);
  a("stall_s", d.stall_s);
}
CARYA_FIELDS(LongIs) {
  a("type", d.type), a("bytes", d.bytes);
}
CARYA_FIELDS(RankStatus) {
  a("rank", d.rank), a("epoch", d.epoch), a("position", d.position), a("batches", d.batches);
  a("samples", d.samples), a("bytes_read", d.bytes_read), a("samples_per_s", d.samples_per_s);
  a("slots", d.slots), a("free", d.free), a("filling", d.filling), a("ready", d.ready), a("held", d.held);
  a("slot_bytes", d.slot_bytes), a("quarantined", d.quarantined), a("lingers_s", d.lingers_s);
  a("threads", d.threads), a("threads_used", d.threads_used);
  a("readers", d.readers), a("closed", d.closed), a("compute_s", d.compute_s), a("placement", d.placement);
  a("cache", d.cache);
}
CARYA_FIELDS(JobStatus) {
  a("job", d.job), a("source", d.source), a("records", d.records), a("world_size", d.world_size);
  a("weight", d.weight), a("share", d.share), a("state", d.state), a("ranks", d.ranks);
}
CARYA_FIELDS(GuestStatus) {
  a("pid", d.pid), a("weight", d.weight), a("wants", d.wants), a("threads", d.threads), a("cpu_s", d.cpu_s);
}
CARYA_FIELDS(DaemonStatus) {
  a("daemon", d.daemon), a("pid", d.pid), a("up_s", d.up_s), a("state", d.state), a("socket", d.socket);
  a("mount_namespace", d.mount_namespace);
  a("io_engine", d.io_engine), a("threads", d.threads), a("cpu_s", d.cpu_s),
      a("memory_bytes", d.memory_bytes);
  a("shared_bytes", d.shared_bytes), a("shared_bytes_limit", d.shared_bytes_limit);
  a("cache_bytes", d.cache_bytes), a("cache_bytes_limit", d.cache_bytes_limit);
  a("cache_written_bytes", d.cache_written_bytes), a("cache_write_budget", d.cache_write_budget);
  a("descriptors", d.descriptors), a("descriptors_limit", d.descriptors_limit),
      a("connections", d.connections);
  a("attached", d.attached), a("detached", d.detached), a("killed", d.killed), a("jobs", d.jobs);
  a("guests", d.guests), a("guests_cpu_s", d.guests_cpu_s);
}

}  // namespace carya::archive

namespace carya::loader {
namespace {

using Json = nlohmann::json;

/// Values of enumerations that the code switches on.
bool sane(const JobOptions& options) {
  return options.on_error <= transforms::OnError::kMask &&
         options.io_engine <= io::ReadEngineOptions::Kind::kPread &&
         options.reorder <= autotune::Sense::kRelaxed && options.cache.mode <= CacheOptions::Mode::kOn &&
         options.cache.form <= CacheOptions::Form::kRecords &&
         (!options.remote || options.remote->goal.objective <= autotune::Objective::kCostAtTarget);
}
bool sane(const AttachRequest& request) {
  return sane(request.options);
}
bool sane(const PolicyRequest& request) {
  return request.on_error <= transforms::OnError::kMask;
}
bool sane(const ErrorIs& document) {
  return document.error.code <= Code::kForked;
}
bool sane(const WatchIs& watched) {
  for (const RankWatched& rank : watched.ranks)
    for (const RecordError& failure : rank.broken)
      if (failure.error.code > Code::kForked) return false;
  return true;
}
bool sane(const DeliveredErrors& found) {
  for (const RecordError& failure : found.quarantine)
    if (failure.error.code > Code::kForked) return false;
  return !found.failure || found.failure->error.code <= Code::kForked;
}
template <typename Document>
bool sane(const Document&) {
  return true;
}

// What clients send, by its name in PROTOCOL.md; other documents are the daemon's.
template <typename Document>
constexpr const char* kClientName = nullptr;
template <>
constexpr const char* kClientName<Hello> = "Hello";
template <>
constexpr const char* kClientName<AttachRequest> = "Attach";
template <>
constexpr const char* kClientName<LendRequest> = "Lend";
template <>
constexpr const char* kClientName<SeekRequest> = "Seek";
template <>
constexpr const char* kClientName<PolicyRequest> = "Policy";
template <>
constexpr const char* kClientName<TakeFoundRequest> = "TakeFound";
template <>
constexpr const char* kClientName<DetachRequest> = "Detach";
template <>
constexpr const char* kClientName<StopJobRequest> = "StopJob";
template <>
constexpr const char* kClientName<LogsRequest> = "Logs";
template <>
constexpr const char* kClientName<TraceRequest> = "Trace";
template <>
constexpr const char* kClientName<WatchRequest> = "Watch";
template <>
constexpr const char* kClientName<TurnRequest> = "Turn";

template <typename... Documents>
std::vector<std::string> number_fields_of() {
  std::vector<std::string> places;
  (archive::add_number_fields<Documents>(kClientName<Documents>, places), ...);
  return places;
}

}  // namespace

std::vector<std::string> client_number_fields() {
  return number_fields_of<Hello, AttachRequest, SeekRequest, PolicyRequest, TakeFoundRequest, DetachRequest,
                          StopJobRequest, LogsRequest, TraceRequest, WatchRequest, TurnRequest,
                          LendRequest>();
}

template <typename Document>
std::string encode(const Document& document) {
  return archive::to_cbor<Json>(document);
}

template <typename Document>
Result<Document> decode(const std::string& body) {
  std::string wrong;
  auto document = archive::from_cbor<Json, Document>(body, wrong);
  if (!document || !sane(*document))
    return fail(Code::kCorrupt,
                "control message: " + (wrong.empty() ? "its body" : wrong) + " is not as expected");
  if constexpr (kClientName<Document> != nullptr)
    TRY(archive::check_numbers(kClientName<Document>, *document, check_number));
  return std::move(*document);
}

template <typename Document>
std::string to_json(const Document& document) {
  return archive::Writer<Json>::value_of(document).dump(-1, ' ', false, Json::error_handler_t::replace);
}

#define CARYA_DOCUMENT(Type)                \
  template std::string encode(const Type&); \
  template Result<Type> decode<Type>(const std::string&);
CARYA_DOCUMENT(Hello)
CARYA_DOCUMENT(Welcome)
CARYA_DOCUMENT(AttachRequest)
CARYA_DOCUMENT(Attached)
CARYA_DOCUMENT(LendRequest)
CARYA_DOCUMENT(WantGrants)
CARYA_DOCUMENT(SeekRequest)
CARYA_DOCUMENT(SessionIs)
CARYA_DOCUMENT(PolicyRequest)
CARYA_DOCUMENT(PolicySet)
CARYA_DOCUMENT(TakeFoundRequest)
CARYA_DOCUMENT(DeliveredErrors)
CARYA_DOCUMENT(StreamStats)
CARYA_DOCUMENT(DetachRequest)
CARYA_DOCUMENT(StopJobRequest)
CARYA_DOCUMENT(LogsRequest)
CARYA_DOCUMENT(LogsAre)
CARYA_DOCUMENT(TraceRequest)
CARYA_DOCUMENT(TraceIs)
CARYA_DOCUMENT(WatchRequest)
CARYA_DOCUMENT(WatchIs)
CARYA_DOCUMENT(TurnRequest)
CARYA_DOCUMENT(TurnIs)
CARYA_DOCUMENT(MetricsAre)
CARYA_DOCUMENT(Progress)
CARYA_DOCUMENT(LongIs)
CARYA_DOCUMENT(DaemonStatus)
CARYA_DOCUMENT(ErrorIs)
template std::string to_json(const DaemonStatus&);
template std::string to_json(const LogsAre&);

}  // namespace carya::loader
