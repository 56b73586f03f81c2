#include "shm/extents.h"

#include <sys/stat.h>

#include <cerrno>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>
#include <boost/interprocess/indexes/iset_index.hpp>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <boost/interprocess/sync/mutex_family.hpp>

#include "shm/memfd.h"

namespace carya::shm {
namespace {

namespace interprocess = boost::interprocess;
using Algorithm = interprocess::rbtree_best_fit<interprocess::null_mutex_family,
                                                interprocess::offset_ptr<void>, kExtentAlign>;
// Nothing is looked up by name. The null index would be enough, but Boost 1.74 does not compile with it here.
using Buffer = interprocess::basic_managed_external_buffer<char, Algorithm, interprocess::iset_index>;
static_assert(Algorithm::Alignment == kExtentAlign);

std::string subject_of(std::uint64_t bytes) {
  return fmt::format("extents of a memory file of {} B", bytes);
}

}  // namespace

struct Extents::Allocator {
  Allocator(void* memory, std::uint64_t bytes) : buffer(interprocess::create_only, memory, bytes) {}

  Buffer buffer;
  std::unordered_map<std::uint64_t, std::uint64_t>
      live;  // offset -> bytes; Boost would not see a second free
};

Result<Extents> Extents::create(const char* name, std::uint64_t bytes) {
  ASSIGN(UniqueFd fd, create_memfd(name, bytes, false));
  ASSIGN(Region region, Region::map(fd.get(), bytes, Region::Access::kReadWrite));
  TRY(seal_memfd(fd.get(), kSealReadOnly));
  try {
    auto allocator = std::make_unique<Allocator>(region.data(), bytes);
    return Extents(std::move(fd), std::move(region), std::move(allocator));
  } catch (const interprocess::interprocess_exception&) {
    return fail(Code::kInvalidArgument, subject_of(bytes) + ": too small for its tree; give at least a page");
  }
}

Extents::Extents(UniqueFd fd, Region region, std::unique_ptr<Allocator> allocator)
    : fd_(std::move(fd)), region_(std::move(region)), allocator_(std::move(allocator)) {}
Extents::Extents(Extents&&) noexcept = default;
Extents& Extents::operator=(Extents&&) noexcept = default;
Extents::~Extents() = default;

Result<Extent> Extents::allocate(std::uint64_t bytes) {
  if (bytes == 0)
    return fail(Code::kInvalidArgument, subject_of(this->bytes()) + ": got 0 B; give at least 1");
  // Boost rounds up, so a number close to 2^64 would become a small one.
  void* const memory = bytes > this->bytes() ? nullptr : allocator_->buffer.allocate(bytes, std::nothrow);
  if (memory == nullptr)
    return fail(Code::kExhausted, fmt::format("{}: no piece of {} B; {} B are free beside {} extents",
                                              subject_of(this->bytes()), bytes, free_bytes(), count()));
  const auto offset = static_cast<std::uint64_t>(static_cast<std::byte*>(memory) - region_.data());
  CHECK(allocator_->live.emplace(offset, bytes).second);
  return Extent{.offset = offset, .bytes = bytes};
}

void Extents::free(const Extent& extent) {
  std::byte* const memory = this->memory(extent).data();
  allocator_->live.erase(extent.offset);
  allocator_->buffer.deallocate(memory);
}

std::span<std::byte> Extents::memory(const Extent& extent) const {
  const auto found = allocator_->live.find(extent.offset);
  CHECK(found != allocator_->live.end() && found->second == extent.bytes);
  return {region_.data() + extent.offset, extent.bytes};
}

std::uint64_t Extents::free_bytes() const {
  return allocator_->buffer.get_free_memory();
}

std::size_t Extents::count() const {
  return allocator_->live.size();
}

Result<ExtentReader> ExtentReader::map(int fd, std::uint64_t bytes_max, std::string_view what) {
  const std::string subject(what);
  struct stat info{};
  if (fstat(fd, &info) != 0) return fail(Code::kCorrupt, subject + ": not a descriptor", errno);
  if (info.st_size < 1 || static_cast<std::uint64_t>(info.st_size) > bytes_max)
    return fail(Code::kCorrupt,
                fmt::format("{}: of {} bytes; give 1 to {}", subject, info.st_size, bytes_max));
  const auto size = static_cast<std::uint64_t>(info.st_size);
  TRY(check_memfd(fd, size, kSealReadOnly, what));
  // Reading a hole would take memory in this process. So the file must have all of its memory, and its seals let nobody
  // punch a hole.
  if (static_cast<std::uint64_t>(info.st_blocks) * 512 < size)
    return fail(Code::kCorrupt,
                fmt::format("{}: {} bytes with holes, {} have memory", subject, size, info.st_blocks * 512));
  ASSIGN(Region region, Region::map(fd, size, Region::Access::kReadOnly));
  return ExtentReader(std::move(region));
}

Result<std::span<const std::byte>> ExtentReader::at(const Extent& extent) const {
  if (extent.offset > bytes() || extent.bytes > bytes() - extent.offset)
    return fail(Code::kCorrupt, fmt::format("{}: got {} B at {}, which it does not have", subject_of(bytes()),
                                            extent.bytes, extent.offset));
  return std::span<const std::byte>(region_.data() + extent.offset, extent.bytes);
}

}  // namespace carya::shm
