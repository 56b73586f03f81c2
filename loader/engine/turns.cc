#include "loader/engine/turns.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace carya::loader {
namespace {

/// A stream's mean follows its last so many chunks.
constexpr double kChunksRemembered = 8;
/// Of a chunk of which nothing is known; and of each at least: what takes no time would never end its turn.
constexpr double kUnknownNs = 1e5, kLeastNs = 100;
/// So many chunks a stream may be charged at once for being blocked: its mean follows what blocks it for good soon.
constexpr double kBlockedChunks = 4;

}  // namespace

/// Returns the index of the job that a new stream belongs to.
std::size_t Turns::join(std::uint64_t job, double weight) {
  CHECK(weight >= kWeightMin && weight <= kWeightMax);
  streams_.reserve(streams_.size() + 1);
  asked_.reserve(jobs_.size() + 1);
  auto found = job == 0 ? jobs_.end() : std::ranges::find(jobs_, job, &Job::number);
  if (found == jobs_.end()) {
    jobs_.push_back({.number = job, .had = now_});
    found = jobs_.end() - 1;
  }
  found->weight = weight;
  ++found->streams;
  return static_cast<std::size_t>(found - jobs_.begin());
}

void Turns::add(const Turn& turn) {
  const std::size_t job = join(turn.job, turn.weight), at = streams_.size() - guests_;
  streams_.insert(streams_.begin() + static_cast<std::ptrdiff_t>(at), {.job = job, .had = jobs_[job].now});
  if (turn_ > at) ++turn_;
}

void Turns::add_guest(double weight) {
  const std::size_t job = join(0, weight);
  jobs_[job].credit_ns = kGuestCreditNs;
  streams_.push_back({.job = job});
  ++guests_;
}

void Turns::remove(std::size_t index) {
  const std::size_t job = streams_.at(index).job;
  if (index >= streams_.size() - guests_) --guests_;
  streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(index));
  if (turn_ > index) --turn_;
  if (--jobs_[job].streams > 0) return;
  jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(job));
  for (Stream& stream : streams_)
    if (stream.job > job) --stream.job;
}

double Turns::Stream::expected_ns() const {
  return mean_ns > 0 ? mean_ns : kUnknownNs;
}

double Turns::begins(const Job& job) const {
  return std::max(job.had, now_ - job.credit_ns / job.weight);
}

double Turns::begins(const Stream& stream) const {
  return std::max(stream.had, jobs_[stream.job].now - kCreditNs);
}

void Turns::ask(std::size_t index) {
  Job& job = jobs_[streams_[index].job];
  if (!job.ready) asked_.push_back(streams_[index].job);
  if (!job.ready || begins(streams_[index]) < begins(streams_[*job.ready])) job.ready = index;
}

/// Up to where a job is due, among those that were asked.
double Turns::due() const {
  double weights = 0, sum = 0, least = begins(jobs_[asked_.front()]);
  for (const std::size_t one : asked_) {
    const double at = begins(jobs_[one]);
    weights += jobs_[one].weight;
    sum += jobs_[one].weight * (at - now_);
    least = std::min(least, at);
  }
  return std::max(least, now_ + sum / weights);  // rounding leaves one at least
}

std::optional<std::size_t> Turns::chosen() {
  if (asked_.empty()) return std::nullopt;
  const double due = this->due();
  std::optional<std::size_t> first;
  double first_ends = 0;
  for (const std::size_t one : asked_) {
    Job& job = jobs_[one];
    const std::size_t stream = *std::exchange(job.ready, std::nullopt);
    const double ends = begins(job) + streams_[stream].expected_ns() / job.weight;
    if (begins(job) > due || (first && ends >= first_ends)) continue;
    first = stream;
    first_ends = ends;
  }
  now_ = std::max(now_, due);
  return first;
}

bool Turns::is_due_now(std::size_t index) {
  for (const std::size_t one : asked_) jobs_[one].ready.reset();
  Job& job = jobs_[streams_.at(index).job];
  if (asked_.size() == 1) {  // nobody had a use for what it had
    job.had = std::min(job.had, now_ + kCreditNs / job.weight);
    return true;
  }
  const double due = this->due();
  double least = begins(job);
  for (const std::size_t one : asked_) least = std::min(least, begins(jobs_[one]));
  now_ = std::max(now_, least);  // no further: nobody loses what is due to it since a guest was heard of late
  return begins(job) <= due + kAheadNs / job.weight;
}

double Turns::begin(std::size_t index) {
  Stream& stream = streams_.at(index);
  Job& job = jobs_[stream.job];
  const double expected = stream.expected_ns(), at = begins(stream);
  job.had = begins(job) + expected / job.weight;
  job.now = std::max(job.now, at);
  stream.had = at + expected;
  turn_ = index + 1;
  return expected;
}

void Turns::end(std::size_t index, double expected_ns, double took_ns, double blocked_ns) {
  Stream& stream = streams_.at(index);
  Job& job = jobs_[stream.job];
  const double blocked = std::min(blocked_ns, kSurpriseNs + kBlockedChunks * stream.expected_ns());
  const double took = std::max(took_ns + blocked, kLeastNs);
  job.had += (took - expected_ns) / job.weight;
  stream.had += took - expected_ns;
  stream.mean_ns = stream.mean_ns > 0 ? stream.mean_ns + (took - stream.mean_ns) / kChunksRemembered : took;
}

void Turns::charge(std::size_t index, double ns, double weight) {
  CHECK(weight >= kWeightMin && weight <= kWeightMax);
  Stream& stream = streams_.at(index);
  Job& job = jobs_[stream.job];
  job.weight = weight;
  job.had = begins(job) + ns / weight;
  stream.had += ns;
}

}  // namespace carya::loader
