#include "io/http/request_window.h"

#include <algorithm>
#include <bit>

namespace carya::io {
namespace {

constexpr std::uint32_t kAnswersMin = 32;  // of a round: times of a store differ much
constexpr double kGain = 2, kShrinkMost = 0.8, kLower = 0.125, kLearnShare = 0.25;
constexpr int kShrunkMax = 3;

}  // namespace

RequestWindow::RequestWindow(std::uint32_t most)
    : most_(std::max(1U, most)), wanted_(std::min(kFirst, most_)), ceiling_(most_) {}

std::uint32_t RequestWindow::allowed() const {
  const double now = learning_ > 0 ? std::max(kLeast, kLearnShare * wanted_) : wanted_;
  return static_cast<std::uint32_t>(std::max(1.0, std::min(now, ceiling_)));
}

void RequestWindow::note_answered(std::int64_t now_ns, std::int64_t took_ns, std::uint64_t bytes) {
  ceiling_ = std::min(most_, ceiling_ + 1 / std::max(1.0, ceiling_));
  if (began_ns_ == 0) {
    began_ns_ = now_ns - took_ns;
    answers_wanted_ = std::max(kAnswersMin, allowed());
    learn_ns_ = now_ns + kLearnFirstNs;
  }
  Size& size = sizes_.at(std::min<std::size_t>(sizes_.size() - 1, std::bit_width(bytes)));
  size.sum_ns += static_cast<double>(took_ns);
  ++size.count;
  if (++answers_ >= answers_wanted_) end_round(now_ns);
}

void RequestWindow::end_round(std::int64_t now_ns) {
  double alone_ns = 0;
  for (Size& size : sizes_) {
    if (size.count == 0) continue;
    const double mean_ns = size.sum_ns / size.count;
    if (learning_ == 1 || size.alone_ns == 0)
      size.alone_ns = mean_ns;
    else
      size.alone_ns += kLower * std::min(0.0, mean_ns - size.alone_ns);
    alone_ns += size.alone_ns * size.count;
    size.sum_ns = size.count = 0;
  }
  const auto elapsed_ns = static_cast<double>(std::max<std::int64_t>(1, now_ns - began_ns_));
  const double needed = kGain * alone_ns / elapsed_ns;
  if (learning_ == 0) {  // a round of few requests needs few
    const double least = idle_ ? wanted_ : kShrinkMost * wanted_;
    shrunk_ = !idle_ && needed < kShrinkMost * wanted_ ? shrunk_ + 1 : 0;
    wanted_ = std::clamp(needed, least, std::max(least, kGain * wanted_));
    wanted_ = std::clamp(wanted_, std::min(kLeast, most_), most_);
  }
  if (learning_ > 0 && --learning_ == 0)
    learn_ns_ = now_ns + kLearnEveryNs;
  else if (learning_ == 0 && !idle_ && (now_ns >= learn_ns_ || shrunk_ >= kShrunkMax))
    learning_ = 2;
  began_ns_ = now_ns;
  answers_ = 0;
  answers_wanted_ = std::max(kAnswersMin, allowed());
  if (learning_ == 2) {
    answers_wanted_ += static_cast<std::uint32_t>(wanted_);  // all that is under way by now
    shrunk_ = 0;
  }
  idle_ = false;
}

void RequestWindow::note_busy(std::int64_t now_ns) {
  idle_ = true;
  if (halved_ns_ != 0 && now_ns - halved_ns_ <= kHalveAgainNs) return;
  ceiling_ = std::max(1.0, std::min(ceiling_, wanted_) / 2);
  halved_ns_ = now_ns;
}

bool RetryBudget::take(std::int64_t now_ns) {
  if (tokens_ >= 1) {
    tokens_ -= 1;
  } else if (now_ns - looked_ns_ < kLookNs) {
    return false;
  }
  looked_ns_ = now_ns;
  return true;
}

void RetryBudget::note_good(bool again) {
  tokens_ = std::min(kTokensMax, tokens_ + (again ? 1 + kShare : kShare));
}

}  // namespace carya::io
