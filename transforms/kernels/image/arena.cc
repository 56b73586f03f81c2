#include "transforms/kernels/image/arena.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/checked.h"

namespace carya::transforms {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kSlack = 64;  // SIMD code of the codecs may touch this much after a row
constexpr std::size_t kFirstBlock = std::size_t{256} << 10;

}  // namespace

Arena::~Arena() {
  for (const Block& block : blocks_) std::free(block.data);
}

bool Arena::add_block(std::size_t capacity) {
  blocks_.reserve(blocks_.size() + 1);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlign, align_up(capacity, kAlign)));
  if (data == nullptr) return false;
  blocks_.push_back({data, align_up(capacity, kAlign)});
  used_ = 0;
  return true;
}

void* Arena::allocate(std::size_t bytes) {
  if (bytes > SIZE_MAX / 4) return nullptr;
  const std::size_t need = align_up(bytes + kSlack, kAlign);
  if (blocks_.empty() || blocks_.back().capacity - used_ < need) {
    std::size_t capacity = blocks_.empty() ? kFirstBlock : 2 * blocks_.back().capacity;
    if (capacity > kRetainMax || capacity < need) capacity = need;
    if (!add_block(capacity)) return nullptr;
  }
  std::byte* piece = blocks_.back().data + used_;
  used_ += need;
  std::memset(piece, 0, need);
  return piece;
}

void Arena::reset() {
  used_ = 0;
  if (blocks_.size() <= 1 && (blocks_.empty() || blocks_[0].capacity <= kRetainMax)) return;
  // Several blocks become one, so that the next picture of this size finds room in one piece.
  std::size_t total = 0;
  for (const Block& block : blocks_) {
    total += block.capacity;
    std::free(block.data);
  }
  blocks_.clear();
  if (total <= kRetainMax) (void)add_block(total);
}

}  // namespace carya::transforms
