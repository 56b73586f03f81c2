#include "loader/stream/delivery_log.h"

#include <algorithm>

namespace carya::loader {

void DeliveryLog::note(const Step& step) {
  std::uint64_t noted = 0;
  for (const Delivered& delivered : step.delivered) {
    if (delivered.worker == 0 || delivered.worker == noted) continue;
    noted = delivered.worker;
    const auto same = std::ranges::find_if(
        entries_, [&](const Entry& one) { return one.worker == noted && one.epoch == step.epoch; });
    if (same == entries_.end()) {
      entries_[next_++ % kEntriesMax] = {noted, step.epoch, step.index, step.index, 1};
    } else if (same->last != step.index) {
      same->first = std::min(same->first, step.index);
      same->last = std::max(same->last, step.index);
      ++same->batches;
    }
  }
}

std::string DeliveryLog::of(std::uint64_t worker) const {
  std::string text;
  for (const Entry& one : entries_)
    if (one.worker == worker)
      text += (text.empty() ? "epoch " : ", epoch ") + std::to_string(one.epoch) + " steps " +
              std::to_string(one.first) + " to " + std::to_string(one.last) + " (" +
              std::to_string(one.batches) + " of them)";
  return text;
}

}  // namespace carya::loader
