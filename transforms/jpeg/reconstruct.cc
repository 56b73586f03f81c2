#include "transforms/jpeg/reconstruct.h"

#include "base/error.h"
#include "transforms/jpeg/work.h"

namespace carya::jpeg {

struct Reconstructor::Impl {
  Work work;
};

Reconstructor::Reconstructor() : impl_(std::make_unique<Impl>()) {}
Reconstructor::~Reconstructor() = default;
Reconstructor::Reconstructor(Reconstructor&&) noexcept = default;
Reconstructor& Reconstructor::operator=(Reconstructor&&) noexcept = default;

void Reconstructor::set_patience(Patience* patience) {
  impl_->work.patience = patience;
}

Outcome Reconstructor::decode(const Header& header, BlockSource& source, const Region& region, Mode mode,
                              std::uint8_t* out, std::size_t stride) {
  CHECK(region.x >= 0 && region.y >= 0 && region.width > 0 && region.height > 0);
  CHECK(region.width <= header.width - region.x && region.height <= header.height - region.y);
  CHECK(stride >= static_cast<std::size_t>(region.width) * static_cast<std::size_t>(channels(mode)));
  Work& work = impl_->work;
  work.header = &header;
  work.region = region;
  work.mode = mode;
  work.out = out;
  work.stride = stride;
  work.block_source = &source;
  plan_region(work);
  prepare_blocks(work);
  return transform_blocks(work);
}

}  // namespace carya::jpeg
