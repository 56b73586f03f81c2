#include "transforms/jpeg/bands.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace carya::jpeg {
namespace {

/// The MCU rows of a band. With many bands no core is without work at the end; short bands decode the row between two
/// of them too often. Measured: bench/large.
int band_rows(int rows) {
  return std::clamp(rows / 12, 8, 32);
}

/// Copy region, scan and output of one decode. The two share no memory.
void take_task(const Work& from, Work& to) {
  to.header = from.header;
  to.scan = from.scan;
  to.region = from.region;
  to.mode = from.mode;
  to.out = from.out;
  to.stride = from.stride;
  to.sink = nullptr;
  to.index = from.index;
  to.made = nullptr;
  to.points = {};
  to.given = nullptr;
  to.first_band = to.last_band = true;
}

}  // namespace

bool covers(const Index& index, const Work& work) {
  const int in_row = index.spacing() == 0 ? 0 : work.mcu_x0 / index.spacing();
  const std::size_t last =
      static_cast<std::size_t>(work.mcu_y1 - 1) * static_cast<std::size_t>(index.per_row()) +
      static_cast<std::size_t>(in_row);
  return last < index.points().size();
}

class Bands::Parts final : public BandWork {
 public:
  Parts(Bands& bands, const Work& whole, Entry entry, const Index* points)
      : bands_(bands),
        whole_(whole),
        entry_(entry),
        index_(points),
        rows_(band_rows(whole.mcu_y1 - whole.mcu_y0)),
        count_(std::max(1, (whole.mcu_y1 - whole.mcu_y0) / rows_)),
        known_(static_cast<std::size_t>(count_)) {
    if (index_ != nullptr) points_ = index_->points().data();
  }
  int count() const { return count_; }

  bool prepare(int part) override {
    if (entry_ == Entry::kRestarts) return true;
    if (entry_ == Entry::kScout && scout_rows(bands_.scout_.work, row_end(part)) != Outcome::kDone)
      return false;
    // Later points may be written while the band reads these, so the band reads only as many as there are now.
    known_[static_cast<std::size_t>(part)] = index_->points().size();
    return true;
  }

  bool run(int part, int lane) override {
    Work& work = begin_band(part, part + 1, lane);
    const bool two_streams = entry_ != Entry::kRestarts;
    if (two_streams)
      work.points = {points_, known_[static_cast<std::size_t>(part)]};
    else
      work.given = &bands_.scout_.work.unstuffed;
    return decode_band(work, lane, two_streams);
  }

  bool has_rest() const override { return entry_ == Entry::kScout; }
  /// From here on this is the decode in one piece, which also extends the points.
  bool run_rest(int first, int lane) override {
    Work& work = begin_band(first, count_, lane);
    if (first == 0) work.index = whole_.index;
    work.made = bands_.scout_.work.made;
    return decode_band(work, lane, false);
  }

 private:
  Work& begin_band(int first, int end, int lane) {
    Work& work = bands_.lanes_[static_cast<std::size_t>(lane)]->work;
    take_task(whole_, work);
    const int top = line_begin(first);
    work.region.y = top;
    work.region.height = line_end(end - 1) - top;
    work.out = whole_.out + static_cast<std::size_t>(top - whole_.region.y) * whole_.stride;
    work.index = index_;
    work.first_band = first == 0;
    work.last_band = end == count_;
    return work;
  }
  bool decode_band(Work& work, int lane, bool two_streams) const {
    plan_region(work);
    work.whole_mcu_y1 = whole_.mcu_y1;
    jpeg::prepare(work, bands_.lanes_[static_cast<std::size_t>(lane)]->tables, two_streams);
    return run_decode(work, two_streams) == Outcome::kDone;
  }

  int row_end(int part) const {
    return part == count_ - 1 ? whole_.mcu_y1 : whole_.mcu_y0 + (part + 1) * rows_;
  }
  /// The last line of an MCU row needs a chroma line of the next row. It belongs to the band of that row, which needs
  /// this row anyway.
  int line_end(int part) const {
    const Region& region = whole_.region;
    if (part == count_ - 1) return region.y + region.height;
    const bool shared = whole_.header->sampling == Sampling::k420 && whole_.plane_count == 3;
    return row_end(part) * 8 * whole_.header->components[0].v - (shared ? 1 : 0);
  }
  int line_begin(int part) const { return part == 0 ? whole_.region.y : line_end(part - 1); }

  Bands& bands_;
  const Work& whole_;
  const Entry entry_;
  const Index* const index_;
  const int rows_;
  const int count_;
  const IndexPoint* points_ = nullptr;
  std::vector<std::size_t> known_;  // for each band: how many points of index_ it may read
};

Bands::Entry Bands::entry_of(const Work& work) {
  if (work.scan.size() > kIndexedScanMax) return Entry::kNone;
  if (work.header->restart_interval > 0) return Entry::kRestarts;
  if (work.index != nullptr && covers(*work.index, work)) return Entry::kPoints;
  // Points that no decode of this scan has checked are used only if the caller gave the index for use.
  if (work.index == nullptr ? work.made == nullptr || work.made->points().empty() : work.index == work.made)
    return Entry::kScout;
  return Entry::kNone;
}

void Bands::begin_scout(const Work& work) {
  take_task(work, scout_.work);
  scout_.work.made = work.made;
  if (work.made == nullptr) {
    rows_.bind(*work.header, work.scan.size(), 0);
    scout_.work.made = &rows_;
  }
  scout_.work.made->reserve();
  plan_region(scout_.work);
  prepare_scout(scout_.work, scout_.tables);
}

bool Bands::decode(const Work& work, BandRunner& runner) {
  const Entry entry = entry_of(work);
  if (entry == Entry::kNone) return false;
  while (lanes_.size() < static_cast<std::size_t>(runner.lanes())) lanes_.push_back(std::make_unique<Lane>());
  const Index* points = work.index;
  if (entry == Entry::kScout) {
    begin_scout(work);
    points = scout_.work.made;
  } else if (entry == Entry::kRestarts) {
    take_task(work, scout_.work);
    unstuff_scan(scout_.work);
  }
  Parts parts(*this, work, entry, points);
  return runner.run(parts, parts.count());
}

}  // namespace carya::jpeg
