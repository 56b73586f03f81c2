#include "base/mapping.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/mapped_region.hpp>

#include "base/checked.h"

namespace carya {
namespace {

namespace interprocess = boost::interprocess;
using interprocess::mapped_region;

/// What mapped_region maps: a descriptor of ours, or none for anonymous memory.
struct Source {
  interprocess::mapping_handle_t get_mapping_handle() const {
    interprocess::mapping_handle_t handle{};
    handle.handle = fd;
    return handle;
  }
  int fd = -1;
};

interprocess::mode_t mode_of(Mapping::Access access) {
  switch (access) {
    case Mapping::Access::kReadOnly:
      return interprocess::read_only;
    case Mapping::Access::kReadWrite:
      return interprocess::read_write;
    case Mapping::Access::kPrivate:
      break;
  }
  return interprocess::copy_on_write;
}

/// Address space without memory that starts at a multiple of `align`.
mapped_region reserve(std::size_t bytes, std::size_t align) {
  const std::size_t room = align_up(bytes, mapped_region::get_page_size());
  mapped_region all(Source{}, interprocess::read_private, 0, room + align, nullptr,
                    MAP_ANONYMOUS | MAP_NORESERVE);
  const auto start = reinterpret_cast<std::uintptr_t>(all.get_address());
  const std::size_t before = align_up<std::uintptr_t>(start, align) - start;
  if (before != 0) CHECK(all.shrink_by(before, false));
  CHECK(all.shrink_by(align - before, true));
  return all;
}

}  // namespace

/// A mapped_region that can be left as it is, which Boost's own cannot.
struct Mapping::Region {
  explicit Region(mapped_region&& mapped) noexcept : region(std::move(mapped)) {}
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region() {
    if (!abandoned) region.~mapped_region();
  }

  union {
    mapped_region region;
  };
  bool abandoned = false;
};

Result<Mapping> Mapping::of_file(int fd, std::size_t bytes, Access access, std::string_view subject,
                                 std::size_t align) {
  if (bytes == 0) return fail_errno(subject, EINVAL);  // as mmap says; Boost would take the file's size
  try {
    if (align == 0)
      return Mapping(std::make_unique<Region>(mapped_region(Source{fd}, mode_of(access), 0, bytes)));
    auto space = std::make_unique<Region>(reserve(bytes, align));
    auto region = std::make_unique<Region>(
        mapped_region(Source{fd}, mode_of(access), 0, bytes, space->region.get_address(), MAP_FIXED));
    space->abandoned = true;  // the file lies there now
    return Mapping(std::move(region));
  } catch (const interprocess::interprocess_exception& error) {
    return fail_errno(subject, error.get_native_error());
  }
}

Result<Mapping> Mapping::anonymous(std::size_t bytes, std::string_view subject) {
  if (bytes == 0) return fail_errno(subject, EINVAL);
  try {
    return Mapping(std::make_unique<Region>(mapped_region(Source{}, interprocess::copy_on_write, 0, bytes,
                                                          nullptr, MAP_ANONYMOUS | MAP_NORESERVE)));
  } catch (const interprocess::interprocess_exception& error) {
    return fail_errno(subject, error.get_native_error());
  }
}

Mapping::Mapping() = default;
Mapping::Mapping(std::unique_ptr<Region> region) noexcept
    : region_(std::move(region)),
      data_(static_cast<std::byte*>(region_->region.get_address())),
      bytes_(region_->region.get_size()) {}
Mapping::Mapping(Mapping&& other) noexcept
    : region_(std::move(other.region_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}
Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    region_ = std::move(other.region_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}
Mapping::~Mapping() = default;

void Mapping::abandon() noexcept {
  if (region_) region_->abandoned = true;
  region_.reset();
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace carya
