#include "loader/stream/broken_rows.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/permutation.h"
#include "base/philox.h"

namespace carya::loader {
namespace {

using transforms::OnError;
using Fate = RowVerdict::Fate;

constexpr std::uint32_t kSubstituteDraws = 16;

/// The next substitute of the task's position: draw k of the position's own random numbers.
bool draw_substitute(RowTask& task, const BrokenRowRules& rules, std::uint64_t epoch) {
  if (task.draws == kSubstituteDraws) return false;
  static constexpr std::string_view kName = "carya.replace";
  SampleRng rng(op_key(rules.seed, kName, 0), epoch, task.position, 1 + task.position);
  const Dataset& dataset = rules.dataset;
  std::uint64_t index = 0;
  for (std::uint32_t k = 0; k <= task.draws; ++k) index = rng.next_below(dataset.positions());
  if (dataset.drawn()) {  // else any record is as good as the one at a position
    index = dataset.drawn()->index(epoch, index);
    if (rules.shuffled && dataset.drawn()->in_order())
      index = Permutation(rules.seed, epoch, dataset.kept_count())(index);
  }
  task.record = dataset.kept_record(index);
  ++task.draws;
  task.occurrence = 1 + task.position;
  return true;
}

}  // namespace

RowVerdict judge_broken_row(const BrokenRowRules& rules, std::uint64_t epoch, RowTask& task, Error error) {
  if (error.code != Code::kCorrupt || rules.on_error == OnError::kRaise)
    return {Fate::kStop, std::move(error), std::nullopt};
  RecordError entry = make_failure(rules.dataset, error, epoch, task.position, task.record);
  if (rules.on_error == OnError::kMask) return {Fate::kMask, {}, std::move(entry)};
  if (draw_substitute(task, rules, epoch)) {
    entry.substitute = static_cast<std::int64_t>(task.record);
    return {Fate::kReplace, {}, std::move(entry)};
  }
  error.message += "; " + std::to_string(kSubstituteDraws) +
                   " substitutes were broken too; repair the data, or give on_error=\"mask\"";
  return {Fate::kStop, std::move(error), std::move(entry)};
}

}  // namespace carya::loader
