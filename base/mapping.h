#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/error.h"

namespace carya {

/// A file or anonymous memory that is mapped into this process and unmapped once.
///
/// It wraps Boost.Interprocess's mapped_region, which no other header shows. The caller decides what a mapping means in
/// a forked child, and which advice (madvise) it gets. Threads: owner only; the owner's protocol says who may use the
/// memory.
class Mapping {
 public:
  /// kPrivate: writes stay in this process.
  enum class Access : std::uint8_t { kReadOnly, kReadWrite, kPrivate };

  /// Map the first `bytes` of the file `fd`, such as a memory file. The mapping starts at a multiple of `align`, a
  /// power of two; 0 means a page. The caller has checked the file's size: access behind its end raises SIGBUS. Errors:
  /// those of mmap, with `subject` in front (kExhausted: address space or mappings; kPermission: the file is sealed
  /// against writing; kIo: 0 bytes).
  static Result<Mapping> of_file(int fd, std::size_t bytes, Access access, std::string_view subject,
                                 std::size_t align = 0);
  /// Map zeros that only this process sees. A page takes memory when it is first written, so `bytes` may exceed the
  /// machine's memory. Errors: as of_file().
  static Result<Mapping> anonymous(std::size_t bytes, std::string_view subject);

  Mapping();
  Mapping(Mapping&&) noexcept;
  Mapping& operator=(Mapping&&) noexcept;
  ~Mapping();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  /// Forget the mapping without unmapping it. A forked child needs this for memory under MADV_DONTFORK, since other
  /// memory may lie at its addresses.
  void abandon() noexcept;

 private:
  struct Region;
  explicit Mapping(std::unique_ptr<Region> region) noexcept;

  std::unique_ptr<Region> region_;
  std::byte* data_ = nullptr;  // copied from region_, so that an access needs no call
  std::size_t bytes_ = 0;
};

}  // namespace carya
