#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/error.h"

namespace carya {

/// Memory that the kernel maps into this process, of a file or anonymous, unmapped once.
///
/// Boost.Interprocess's mapped_region carries it; nobody above sees that. What a mapping means in a forked
/// child and how it is advised is the caller's rule. Threads: owner only; the memory itself is for whom the
/// owner's protocol says.
class Mapping {
 public:
  /// kPrivate: what is written stays in this process.
  enum class Access : std::uint8_t { kReadOnly, kReadWrite, kPrivate };

  /// The first `bytes` of the file `fd`, a memory file among others. `align` is a power of two: where the
  /// mapping starts, 0 for the start of a page. The caller has checked the file's size: a byte behind its end
  /// is a SIGBUS. Errors: of mmap, with `subject` in front (kExhausted: address space or mappings; kPermission:
  /// the file is sealed against writing; kIo: 0 bytes).
  static Result<Mapping> of_file(int fd, std::size_t bytes, Access access, std::string_view subject,
                                 std::size_t align = 0);
  /// Zeros of this process alone. A page takes memory when it is first written, and only then: `bytes` may be
  /// more than the machine has. Errors: as above.
  static Result<Mapping> anonymous(std::size_t bytes, std::string_view subject);

  Mapping();
  Mapping(Mapping&&) noexcept;
  Mapping& operator=(Mapping&&) noexcept;
  ~Mapping();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  /// Forget the mapping without unmapping it: in a forked child where it is MADV_DONTFORK, something else may
  /// live at its addresses.
  void abandon() noexcept;

 private:
  struct Region;
  explicit Mapping(std::unique_ptr<Region> region) noexcept;

  std::unique_ptr<Region> region_;
  std::byte* data_ = nullptr;  // region_'s, so that an access asks nobody
  std::size_t bytes_ = 0;
};

}  // namespace carya
