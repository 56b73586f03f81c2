#include "loader/overflow/result_verifier.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/mutex.h"

namespace carya::loader {

void ResultVerifier::begin() {
  thread_ = std::thread([this] { run(); });
}

void ResultVerifier::add(std::unique_ptr<ChunkWork> work) {
  {
    const MutexLock lock(mutex_);
    if (!stopping_) waiting_.push_back(std::move(work));
  }
  if (work) return told_(std::move(work), Verdict::kUnknown, false);
  changed_.notify_one();
}

void ResultVerifier::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
}

void ResultVerifier::end() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void ResultVerifier::run() {
  MutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && waiting_.empty()) changed_.wait(lock);
    if (waiting_.empty()) return;
    std::unique_ptr<ChunkWork> work = std::move(waiting_.front());
    waiting_.pop_front();
    const bool asked = !stopping_;
    lock.unlock();
    const auto [verdict, ours] = asked ? compute(*work) : std::pair(Verdict::kUnknown, false);
    told_(std::move(work), verdict, ours);
    lock.lock();
  }
}

std::pair<ResultVerifier::Verdict, bool> ResultVerifier::compute(const ChunkWork& work) {
  try {
    return compare(work);
  } catch (const std::exception&) {  // no memory, here or in a library
    return {Verdict::kUnknown, false};
  }
}

std::pair<ResultVerifier::Verdict, bool> ResultVerifier::compare(const ChunkWork& work) {
  payload_ = work.sent->table;
  for (const auto& part : work.sent->parts) payload_.insert(payload_.end(), part.begin(), part.end());
  rows_.resize(work.result_bytes());
  const auto made = work.cut->compiled->compute(work.sent->head, payload_, scratch_, rows_);
  if (!made) return {Verdict::kUnknown, false};
  if (!made->broken.empty()) return {Verdict::kDiffers, false};  // the worker reported no broken row
  bool same = true;
  std::size_t at = 0;
  for (const std::span<std::byte> place : work.places) {
    const auto ours = std::span(rows_).subspan(at, place.size());
    same = same && std::ranges::equal(ours, place);
    std::ranges::copy(ours, place.begin());
    at += place.size();
  }
  return {same ? Verdict::kSame : Verdict::kDiffers, true};
}

}  // namespace carya::loader
