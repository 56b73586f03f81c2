#include "transforms/jpeg/decoder.h"

#include "base/error.h"
#include "base/hash.h"
#include "transforms/jpeg/bands.h"
#include "transforms/jpeg/index.h"
#include "transforms/jpeg/reconstruct.h"
#include "transforms/jpeg/work.h"

namespace carya::jpeg {

struct Decoder::Impl {
  Header header;
  TableCache tables;
  Work work;
  Bands bands;
  BandRunner* runner = nullptr;  // of large regions

  // Into work.out or work.sink.
  Outcome decode(std::span<const std::uint8_t> jpeg, const Region& region, Mode mode, const Index* index,
                 Index* made);

  Outcome run(bool two_streams) {
    prepare(work, tables, two_streams);
    return run_decode(work, two_streams);
  }
};

Decoder::Decoder() : impl_(std::make_unique<Impl>()) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return "done";
    case Outcome::kNotOrdinary:
      return "not ordinary";
    case Outcome::kDamaged:
      return "damaged";
    case Outcome::kTail:
      return "tail";
    case Outcome::kRange:
      return "range";
    case Outcome::kIndexLies:
      return "index lies";
    case Outcome::kGivenUp:
      return "given up";
  }
  return "unknown";
}

Ordinary Decoder::recognise(std::span<const std::uint8_t> jpeg) {
  return read_header(jpeg, impl_->header);
}

const Header& Decoder::header() const {
  return impl_->header;
}

void Decoder::set_bands(BandRunner* runner) {
  impl_->runner = runner;
}

void Decoder::set_patience(Patience* patience) {
  impl_->work.patience = patience;
}

Outcome Decoder::Impl::decode(std::span<const std::uint8_t> jpeg, const Region& region, Mode mode,
                              const Index* index, Index* made) {
  if (read_header(jpeg, header) != Ordinary::kOrdinary) return Outcome::kNotOrdinary;
  CHECK(region.x >= 0 && region.y >= 0 && region.width > 0 && region.height > 0);
  CHECK(region.width <= header.width - region.x && region.height <= header.height - region.y);

  work.header = &header;
  work.scan = jpeg.subspan(header.scan_begin);
  work.region = region;
  work.mode = mode;
  work.index = work.made = nullptr;
  work.coefficient_sink = nullptr;
  plan_region(work);

  // Restart intervals would need their own state at each point; such files are rare and go without.
  const bool indexable = header.restart_interval == 0 && jpeg.size() <= kIndexedScanMax;
  std::size_t made_before = 0;
  if (indexable && (index != nullptr || made != nullptr)) {
    // All bytes, since points also mean nothing under other Huffman tables.
    const std::uint64_t hash = hash64(std::as_bytes(jpeg));
    if (index != nullptr && index->fits(header, jpeg.size(), hash)) work.index = index;
    if (made != nullptr) {
      if (!made->fits(header, jpeg.size(), hash)) made->bind(header, jpeg.size(), hash);
      work.made = made;
      made_before = made->points().size();
    }
  }
  Outcome outcome = Outcome::kIndexLies;
  if (runner != nullptr && work.sink == nullptr &&
      runner->wants(std::int64_t{region.width} * region.height)) {
    if (bands.decode(work, *runner)) return Outcome::kDone;
    if (work.made != nullptr) work.made->cut(made_before);
  }
  const bool two_streams = work.index != nullptr && covers(*work.index, work);
  if (two_streams) work.points = work.index->points();
  if (work.index != nullptr) {
    outcome = run(two_streams);
    if (outcome == Outcome::kDone) return outcome;
    if (outcome == Outcome::kGivenUp) {
      if (made != nullptr) made->cut(made_before);
      return outcome;
    }
    // Its own fault or the index's: what counts is a decode that believes in nothing.
    work.index = nullptr;
    if (made != nullptr) made->bind(header, jpeg.size(), hash64(std::as_bytes(jpeg)));
    made_before = 0;
  }
  outcome = run(false);
  if (outcome != Outcome::kDone && work.made != nullptr) work.made->cut(made_before);
  return outcome;
}

Outcome Decoder::decode(std::span<const std::uint8_t> jpeg, const Region& region, Mode mode,
                        std::uint8_t* out, std::size_t stride, const Index* index, Index* made) {
  CHECK(stride >= static_cast<std::size_t>(region.width) * static_cast<std::size_t>(channels(mode)));
  impl_->work.sink = nullptr;
  impl_->work.out = out;
  impl_->work.stride = stride;
  return impl_->decode(jpeg, region, mode, index, made);
}

Outcome Decoder::read_coefficients(std::span<const std::uint8_t> jpeg, CoefficientSink& sink) {
  Work& work = impl_->work;
  if (read_header(jpeg, impl_->header) != Ordinary::kOrdinary) return Outcome::kNotOrdinary;
  work.header = &impl_->header;
  work.scan = jpeg.subspan(impl_->header.scan_begin);
  work.region = {0, 0, impl_->header.width, impl_->header.height};
  work.mode = Mode::kRgb;
  work.index = work.made = nullptr;
  work.sink = nullptr;
  work.coefficient_sink = &sink;
  plan_region(work);
  // The range of every component is checked by transforming all of them.
  CHECK(work.plane_count == work.header->component_count);
  return impl_->run(false);
}

Outcome Decoder::decode_bands(std::span<const std::uint8_t> jpeg, const Region& region, Mode mode,
                              LineSink& sink, const Index* index, Index* made) {
  CHECK(region.width > 0 && region.width <= kSideMax);
  const std::size_t line = static_cast<std::size_t>(region.width) * static_cast<std::size_t>(channels(mode));
  Work& work = impl_->work;
  work.band.grow(line * kBandLines);
  work.sink = &sink;
  work.out = work.band.data();
  work.stride = line;
  return impl_->decode(jpeg, region, mode, index, made);
}

}  // namespace carya::jpeg
