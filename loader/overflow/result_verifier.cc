#include "loader/overflow/result_verifier.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace carya::loader {

void ChunkCheck::begin() {
  thread_ = std::thread([this] { run(); });
}

void ChunkCheck::add(std::unique_ptr<RemoteWork> work) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) waiting_.push_back(std::move(work));
  }
  if (work) return told_(std::move(work), Verdict::kUnknown, false);
  changed_.notify_one();
}

void ChunkCheck::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
}

void ChunkCheck::end() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void ChunkCheck::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::unique_ptr<RemoteWork> work = std::move(waiting_.front());
    waiting_.pop_front();
    const bool asked = !stopping_;
    lock.unlock();
    const auto [verdict, ours] = asked ? compute(*work) : std::pair(Verdict::kUnknown, false);
    told_(std::move(work), verdict, ours);
    lock.lock();
  }
}

std::pair<ChunkCheck::Verdict, bool> ChunkCheck::compute(const RemoteWork& work) {
  try {
    return compare(work);
  } catch (const std::exception&) {  // no memory, here or in a library
    return {Verdict::kUnknown, false};
  }
}

std::pair<ChunkCheck::Verdict, bool> ChunkCheck::compare(const RemoteWork& work) {
  payload_ = work.sent->table;
  for (const auto& part : work.sent->parts) payload_.insert(payload_.end(), part.begin(), part.end());
  rows_.resize(work.result_bytes());
  const auto made = work.cut->compiled->compute(work.sent->head, payload_, scratch_, rows_);
  if (!made) return {Verdict::kUnknown, false};
  if (!made->broken.empty()) return {Verdict::kDiffers, false};  // the worker said that none is
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
