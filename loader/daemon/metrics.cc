#include "loader/daemon/metrics.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "loader/program/metrics_page.h"

namespace carya::loader {
namespace {

template <typename Each>
void each_rank(const DaemonStatus& status, const Each& each) {
  for (const JobStatus& job : status.jobs)
    for (const RankStatus& rank : job.ranks)
      each(rank, metric_label("carya_job", job.job) + "," + metric_label("rank", std::to_string(rank.rank)));
}

double real(std::uint64_t count) {
  return static_cast<double>(count);
}

/// One figure of the whole daemon, or of each rank.
template <typename Subject>
struct Figure {
  const char* name;
  const char* type;
  const char* help;
  double (*value)(const Subject&);
};

constexpr std::array<Figure<DaemonStatus>, 12> kDaemonFigures{{
    {"carya_readers_attached_total", "counter", "Readers that attached since the daemon's start.",
     [](const DaemonStatus& d) { return real(d.attached); }},
    {"carya_readers_detached_total", "counter", "Readers that closed their loader.",
     [](const DaemonStatus& d) { return real(d.detached); }},
    {"carya_readers_killed_total", "counter", "Readers whose process died, or that were thrown out.",
     [](const DaemonStatus& d) { return real(d.killed); }},
    {"carya_connections", "gauge", "Control connections that are open.",
     [](const DaemonStatus& d) { return real(d.connections); }},
    {"carya_shared_memory_bytes", "gauge", "Shared memory of the slots of all jobs.",
     [](const DaemonStatus& d) { return real(d.shared_bytes); }},
    {"carya_shared_memory_limit_bytes", "gauge", "The most that may be: limits.shared_memory.",
     [](const DaemonStatus& d) { return real(d.shared_bytes_limit); }},
    {"carya_cache_memory_bytes", "gauge", "Memory that all caches of samples may take.",
     [](const DaemonStatus& d) { return real(d.cache_bytes); }},
    {"carya_cache_memory_limit_bytes", "gauge", "The most that may be: cache.memory.",
     [](const DaemonStatus& d) { return real(d.cache_bytes_limit); }},
    {"carya_cache_written_day_bytes", "gauge", "Bytes of samples written to files within 24 hours.",
     [](const DaemonStatus& d) { return real(d.cache_written_bytes); }},
    {"carya_function_jobs", "gauge", "Jobs of Python functions that take turns with those of the daemon.",
     [](const DaemonStatus& d) { return real(d.guests.size()); }},
    {"carya_function_cpu_seconds_total", "counter", "CPU time of the processes of such jobs, as they say.",
     [](const DaemonStatus& d) { return d.guests_cpu_s; }},
    {"carya_uptime_seconds", "gauge", "Seconds since the daemon's start.",
     [](const DaemonStatus& d) { return d.up_s; }},
}};

constexpr std::array<Figure<RankStatus>, 7> kRankFigures{{
    {"carya_samples_total", "counter", "Samples of batches that were published.",
     [](const RankStatus& r) { return real(r.samples); }},
    {"carya_batches_total", "counter", "Batches that were published.",
     [](const RankStatus& r) { return real(r.batches); }},
    {"carya_bytes_read_total", "counter", "Bytes read from files.",
     [](const RankStatus& r) { return real(r.bytes_read); }},
    {"carya_compute_seconds_total", "counter", "Time of the daemon's threads for a rank's samples.",
     [](const RankStatus& r) { return r.compute_s; }},
    {"carya_quarantined_total", "counter", "Broken records that readers were told of.",
     [](const RankStatus& r) { return real(r.quarantined); }},
    {"carya_epoch", "gauge", "Epoch of the last published batch.",
     [](const RankStatus& r) { return real(r.epoch); }},
    {"carya_position", "gauge", "First position of that epoch that was not published.",
     [](const RankStatus& r) { return real(r.position); }},
}};

void add_reads(MetricsText& lines, const DaemonStatus& status) {
  lines.family("carya_read_latency_seconds", "histogram", "Time of each read, from its start to its bytes.");
  each_rank(status, [&](const RankStatus& rank, const std::string& labels) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < rank.reads_within.size(); ++i) {
      sum += rank.reads_within[i];
      lines.value(labels + ",le=\"" + metric_number(kReadLatencyBoundsS[i]) + "\"", real(sum), "_bucket");
    }
    lines.value(labels + ",le=\"+Inf\"", real(rank.reads), "_bucket");
    lines.value(labels, rank.read_latency_s, "_sum");
    lines.value(labels, real(rank.reads), "_count");
  });
}

/// What the overflow of each rank that has one says.
void add_remote(MetricsText& lines, const DaemonStatus& status) {
  std::vector<std::pair<std::string, nlohmann::json>> reports;
  each_rank(status, [&](const RankStatus& rank, const std::string& labels) {
    if (!rank.placement.empty()) reports.emplace_back(labels, nlohmann::json::parse(rank.placement));
  });
  const auto each_worker = [&](const char* name, const char* type, const char* help, const char* key) {
    lines.family(name, type, help);
    for (const auto& [labels, report] : reports)
      for (const auto& worker : report["workers"])
        lines.value(labels + "," + metric_label("worker", worker["address"]), worker[key].get<double>());
  };
  each_worker("carya_worker_chunks_total", "counter", "Chunks that a worker computed.", "chunks");
  each_worker("carya_worker_hedged_total", "counter", "Chunks that were late and computed here.", "hedged");
  each_worker("carya_worker_lost_total", "counter", "Chunks that were lost with a worker.", "lost");
  each_worker("carya_worker_received_bytes_total", "counter", "Bytes of results.", "received_bytes");
  each_worker("carya_worker_sent_bytes_total", "counter", "Bytes of records.", "sent_bytes");
  each_worker("carya_worker_in_flight", "gauge", "Chunks that a worker has.", "in_flight");
  each_worker("carya_worker_credits", "gauge", "Chunks that it may have.", "credits");
  lines.family("carya_workers_up", "gauge", "Workers that are connected.");
  for (const auto& [labels, report] : reports)
    lines.value(labels, real(static_cast<std::uint64_t>(std::ranges::count_if(
                            report["workers"], [](const auto& worker) { return worker["state"] == "up"; }))));
  lines.family("carya_workers_wanted", "gauge", "Workers that the decision has at work.");
  for (const auto& [labels, report] : reports)
    if (report.contains("running")) lines.value(labels, report["running"]["workers"].get<double>());
  lines.family("carya_cost_dollars_total", "counter",
               "The bill so far: host, workers; and what all local and all remote would have cost.");
  for (const auto& [labels, report] : reports)
    for (const char* kind : {"host", "workers", "all_local", "all_remote"})
      if (report.contains("bill"))
        lines.value(labels + "," + metric_label("kind", kind), report["bill"][kind].get<double>());
}

/// What each rank asked of its stores.
constexpr std::array<Figure<StoreFigures>, 9> kStoreFigures{{
    {"carya_store_requests_total", "counter", "Requests that were sent to a store.",
     [](const StoreFigures& s) { return real(s.requests); }},
    {"carya_store_bytes_total", "counter", "Bytes of its good answers.",
     [](const StoreFigures& s) { return real(s.bytes); }},
    {"carya_store_reads_total", "counter", "Reads that got their bytes; several may be one request.",
     [](const StoreFigures& s) { return real(s.reads); }},
    {"carya_store_failed_total", "counter", "Requests that failed: their reads are tried again, or fail.",
     [](const StoreFigures& s) { return real(s.failed); }},
    {"carya_store_throttled_total", "counter", "Of these, those that the store refused as busy (429, 503).",
     [](const StoreFigures& s) { return real(s.throttled); }},
    {"carya_store_hedged_total", "counter", "Requests that were late and sent a second time.",
     [](const StoreFigures& s) { return real(s.hedged); }},
    {"carya_store_answered_seconds_total", "counter", "Time of requests that ended well, to their last byte.",
     [](const StoreFigures& s) { return static_cast<double>(s.answered_ns) * 1e-9; }},
    {"carya_store_requests_allowed", "gauge", "Requests that the store may have at the same time now.",
     [](const StoreFigures& s) { return real(s.allowed); }},
    {"carya_store_dollars_total", "counter", "What the requests and bytes cost by the prices that are known.",
     [](const StoreFigures& s) { return s.cost(); }},
}};

void add_stores(MetricsText& lines, const DaemonStatus& status) {
  for (const auto& figure : kStoreFigures) {
    lines.family(figure.name, figure.type, figure.help);
    each_rank(status, [&](const RankStatus& rank, const std::string& labels) {
      for (const StoreFigures& store : rank.stores)
        lines.value(labels + "," + metric_label("store", store.source), figure.value(store));
    });
  }
}

/// What each rank keeps of its samples, by tier; what the report has none of has no line.
void add_cache(MetricsText& lines, const DaemonStatus& status) {
  std::vector<std::pair<std::string, nlohmann::json>> ranks, tiers;
  each_rank(status, [&](const RankStatus& rank, const std::string& labels) {
    if (rank.cache.empty()) return;
    nlohmann::json report = nlohmann::json::parse(rank.cache);
    report["written"] = report["filled"];
    tiers.emplace_back(labels + "," + metric_label("tier", "memory"), report);
    for (const auto& files : report["files"])
      tiers.emplace_back(labels + "," + metric_label("tier", files["tier"]), files);
    ranks.emplace_back(labels, std::move(report));
  });
  const auto each = [&](const auto& reports, const char* name, const char* type, const char* help,
                        const char* key) {
    lines.family(name, type, help);
    for (const auto& [labels, report] : reports)
      if (report.contains(key) && report[key].is_number())
        lines.value(labels, report[key].template get<double>());
  };
  each(ranks, "carya_cache_looked_total", "counter", "Samples that were looked for among those kept.",
       "looked");
  each(tiers, "carya_cache_hits_total", "counter", "Samples that were found in a tier.", "hits");
  each(tiers, "carya_cache_written_total", "counter", "Samples that were put into a tier.", "written");
  each(tiers, "carya_cache_written_bytes_total", "counter", "Bytes that were written to files of a tier.",
       "written_bytes");
  each(tiers, "carya_cache_fetch_failures_total", "counter",
       "Samples that were asked of files and did not come: damaged, changed, too late.", "fetch_failures");
  each(tiers, "carya_cache_write_failures_total", "counter", "Samples that could not be written to files.",
       "write_failures");
  each(tiers, "carya_cache_damaged_total", "counter", "Samples and rows of files with a wrong checksum.",
       "damaged");
  each(tiers, "carya_cache_records", "gauge", "Samples that a tier has, whoever put them there.", "records");
  each(tiers, "carya_cache_bytes", "gauge", "Bytes that a tier takes, for whomever.", "bytes");
  each(tiers, "carya_cache_age_seconds", "gauge",
       "Time since the oldest samples of a tier were written: its first in memory, its oldest file.",
       "age_s");
  each(tiers, "carya_cache_capacity_bytes", "gauge", "The most bytes that a tier may take.",
       "capacity_bytes");
  each(tiers, "carya_cache_saved_cpu_seconds", "gauge",
       "CPU time that a tier has saved by what was timed, below 0 while it has cost more.", "saved_cpu_s");
}

}  // namespace

std::string metrics_text(const DaemonStatus& status) {
  MetricsText lines;
  for (const auto& figure : kDaemonFigures) {
    lines.family(figure.name, figure.type, figure.help);
    lines.value("", figure.value(status));
  }
  add_process(lines,
              {.cpu_s = status.cpu_s,
               .memory_bytes = status.memory_bytes,
               .descriptors = status.descriptors,
               .descriptors_limit = status.descriptors_limit},
              "daemon");
  for (const auto& figure : kRankFigures) {
    lines.family(figure.name, figure.type, figure.help);
    each_rank(status, [&](const RankStatus& rank, const std::string& labels) {
      lines.value(labels, figure.value(rank));
    });
  }
  lines.family("carya_slots", "gauge", "Slots by state: free, filling, ready, held.");
  each_rank(status, [&](const RankStatus& rank, const std::string& labels) {
    lines.value(labels + ",state=\"free\"", rank.free);
    lines.value(labels + ",state=\"filling\"", rank.filling);
    lines.value(labels + ",state=\"ready\"", rank.ready);
    lines.value(labels + ",state=\"held\"", rank.held);
  });
  lines.family("carya_reader_stall_seconds_total", "counter",
               "Seconds that a reader slept for its next batch, as it says itself.");
  each_rank(status, [&](const RankStatus& rank, const std::string& labels) {
    for (const ReaderStatus& reader : rank.readers)
      lines.value(labels + "," + metric_label("replica", std::to_string(reader.replica)), reader.stall_s);
  });
  lines.family("carya_op_cpu_seconds_total", "counter",
               "CPU time of each operation of the pipeline, estimated from the samples that were timed.");
  each_rank(status, [&](const RankStatus& rank, const std::string& labels) {
    for (std::size_t i = 0; i < std::min(rank.ops.size(), rank.op_cpu_s.size()); ++i)
      lines.value(labels + "," + metric_label("op", fmt::format("{} {}", i, rank.ops[i].name)),
                  rank.op_cpu_s[i]);
  });
  add_reads(lines, status);
  add_remote(lines, status);
  add_cache(lines, status);
  add_stores(lines, status);
  return lines.take();
}

namespace {

constexpr std::string_view kLabels[] = {"carya_job", "rank", "replica", "state", "op",
                                        "worker",    "kind", "tier",    "le"};

/// Takes a row apart, from its front.
class Row {
 public:
  explicit Row(std::string_view text) : text_(text) {}
  /// What stands before one of these characters.
  std::string_view until(std::string_view ends) {
    const std::string_view found = text_.substr(0, text_.find_first_of(ends));
    text_.remove_prefix(found.size());
    return found;
  }
  bool take(char wanted) {
    if (text_.empty() || text_.front() != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }
  /// A value in quotes, with the format's three escapes, up to its closing one; none: it has no end, or another escape.
  std::optional<std::string> quoted() {
    if (!take('"')) return std::nullopt;
    std::string value;
    while (!text_.empty() && text_.front() != '"') {
      char c = text_.front();
      text_.remove_prefix(1);
      if (c == '\\') {
        if (text_.empty() || (text_.front() != '"' && text_.front() != '\\')) return std::nullopt;
        c = text_.front();
        text_.remove_prefix(1);
      }
      value += c;
    }
    if (!take('"')) return std::nullopt;
    return value;
  }
  std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
};

/// The labels of a row, written anew, each known and there once; none: they are not as they should be.
std::optional<std::string> labels_of(Row& row) {
  std::string labels;
  std::vector<std::string_view> seen;
  if (!row.take('{')) return labels;
  do {
    const std::string_view name = row.until("=");
    if (std::ranges::find(kLabels, name) == std::end(kLabels) ||
        std::ranges::find(seen, name) != seen.end() || !row.take('='))
      return std::nullopt;
    seen.push_back(name);
    const auto value = row.quoted();
    if (!value) return std::nullopt;
    labels += "," + metric_label(std::string(name).c_str(), *value);
  } while (row.take(','));
  if (!row.take('}')) return std::nullopt;
  return labels;
}

/// The number that a row ends with; none: it is none, or not finite.
std::optional<double> value_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// The families that a daemon's page has, in their order, and the rows of all users below them.
class Joined {
 public:
  Joined() {
    add_family("carya_user_up",
               "# HELP carya_user_up Whether a user's daemon answered.\n"
               "# TYPE carya_user_up gauge\n");
    const std::string empty = metrics_text({});
    std::string_view rest = empty;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n') + 1);
      rest.remove_prefix(line.size());
      if (line.starts_with("# HELP ")) {
        Row words(line.substr(7));
        add_family(std::string(words.until(" ")), std::string(line));
      } else if (line.starts_with("# TYPE ")) {
        families_.back().text += line;
        if (line.ends_with(" histogram\n"))
          for (const char* suffix : {"_bucket", "_sum", "_count"})
            index_[families_.back().name + suffix] = families_.size() - 1;
      }
    }
  }
  void add(const UserMetrics& user) {
    const std::string who =
        metric_label("user", user.user) + "," + metric_label("daemon", std::to_string(user.number));
    families_.front().text += fmt::format("carya_user_up{{{}}} {}\n", who, user.text ? 1 : 0);
    std::string_view rest = user.text ? std::string_view(*user.text).substr(0, kUserMetricsBytesMax) : "";
    for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      add_row(rest.substr(0, end), who);
      rest.remove_prefix(end + 1);
    }
  }
  std::string take() {
    std::string text;
    for (const Family& family : families_) text += family.text;
    return text;
  }

 private:
  struct Family {
    std::string name, text;
  };
  void add_family(const std::string& name, std::string text) {
    index_[name] = families_.size();
    families_.push_back({name, std::move(text)});
  }
  void add_row(std::string_view line, const std::string& who) {
    Row row(line);
    const std::string name(row.until("{ "));
    const auto found = index_.find(name);
    if (found == index_.end() || found->second == 0) return;  // the first is this page's own
    const auto labels = labels_of(row);
    if (!labels || !row.take(' ')) return;
    if (const auto value = value_of(row.rest()))
      families_[found->second].text += name + "{" + who + *labels + "} " + metric_number(*value) + "\n";
  }

  std::vector<Family> families_;
  std::map<std::string, std::size_t> index_;
};

}  // namespace

std::string join_metrics(std::span<const UserMetrics> users) {
  Joined joined;
  for (const UserMetrics& user : users) joined.add(user);
  return joined.take();
}

Result<std::unique_ptr<HttpPage>> serve_metrics(const std::string& address, const Server& server) {
  return serve_metrics_pages(address, {.figures = [&server] { return metrics_text(server.status()); },
                                       .state = [&server] { return server.status().state; }});
}

}  // namespace carya::loader
