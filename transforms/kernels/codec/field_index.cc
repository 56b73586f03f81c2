#include "transforms/kernels/codec/field_index.h"

#include "transforms/jpeg/decoder.h"
#include "transforms/jpeg/index.h"
#include "transforms/kernels/codec/indexed_decode.h"

namespace carya::transforms {

static_assert(kIndexSpacingMax == jpeg::Index::kSpacingMax);
namespace {

std::span<const std::uint8_t> as_uint8(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

struct IndexMaker::State {
  jpeg::Decoder decoder;
  IndexedDecode indexed;
  jpeg::Index index;
};

IndexMaker::IndexMaker() : state_(std::make_unique<State>()) {}
IndexMaker::~IndexMaker() = default;
IndexMaker::IndexMaker(IndexMaker&&) noexcept = default;
IndexMaker& IndexMaker::operator=(IndexMaker&&) noexcept = default;

std::optional<IndexInfo> IndexMaker::facts(std::span<const std::byte> known) {
  jpeg::Index& index = state_->index;
  if (!index.read(as_uint8(known))) return std::nullopt;
  return IndexInfo{index.spacing(), index.points().size(),
                   static_cast<std::uint64_t>(index.point_count_max())};
}

// The last pixel alone: everything before it is read, and nothing of it becomes pixels.
bool IndexMaker::complete(std::span<const std::byte> file, FieldIndex& index) {
  State& s = *state_;
  index.made.clear();
  index.use = IndexUse::kNone;
  const auto bytes = as_uint8(file);
  if (s.decoder.recognise(bytes) != jpeg::Ordinary::kOrdinary) return false;
  const jpeg::Header& header = s.decoder.header();
  if (header.restart_interval != 0) return false;
  std::uint8_t pixel = 0;
  const jpeg::Region last{header.width - 1, header.height - 1, 1, 1};
  return s.indexed.decode(s.decoder, bytes, last, jpeg::Mode::kGray, &pixel, 1, index) ==
         jpeg::Outcome::kDone;
}

}  // namespace carya::transforms
