#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace carya {

/// What went wrong, in the few kinds that a caller treats differently.
enum class Code : std::uint8_t {
  kInvalidArgument,  ///< the caller asked for something that cannot be
  kNotFound,         ///< a file, record or name does not exist
  kPermission,       ///< the system refuses access
  kCorrupt,          ///< bytes are broken: the only code that makes a sample "bad data"
  kIo,               ///< storage failed, a file changed or vanished, a read timed out: never bad data
  kTimeout,          ///< a bounded wait ended
  kExhausted,        ///< a limit is reached: memory, slots, descriptors
  kUnsupported,      ///< a format, feature or kernel facility that is not there
  kClosed,           ///< the object was closed
  kForked,           ///< used in a forked child
};

/// Name as it appears in messages and logs: "invalid_argument", "not_found", ...
std::string_view code_name(Code code);

/// An error: what kind, a message with the subject and the numbers, and the errno where one was seen (else
/// 0).
struct Error {
  Code code;
  std::string message;
  int sys_errno = 0;
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

/// `return fail(Code::kCorrupt, "read x: wanted 4 B, got 2 B");` from any function that returns a Result.
inline std::unexpected<Error> fail(Code code, std::string message, int sys_errno = 0) {
  return std::unexpected<Error>(Error{code, std::move(message), sys_errno});
}

/// An error from errno: the message is `subject: strerror`, and the cure where a limit of the system was
/// reached; the code follows from the errno (ENOENT kNotFound, EACCES and EPERM kPermission, ENOMEM, ENOSPC,
/// EMFILE and ENFILE kExhausted, else kIo).
std::unexpected<Error> fail_errno(std::string_view subject, int sys_errno);

/// Prints the location and ends the process; what CHECK calls. A bug, never the world's doing.
[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace carya

/// A bug if false. Always on.
#define CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::carya::check_failed(__FILE__, __LINE__, #condition))

#define CARYA_CONCAT_INNER(a, b) a##b
#define CARYA_CONCAT(a, b) CARYA_CONCAT_INNER(a, b)

/// TRY(expression): return its error from this function, if it has one.
#define TRY(expression)                                                                                     \
  do {                                                                                                      \
    if (auto try_status = (expression); !try_status) return std::unexpected(std::move(try_status.error())); \
  } while (false)

/// ASSIGN(auto x, expression): x is the value, or the error is returned from this function.
#define ASSIGN(target, expression)                                                     \
  auto CARYA_CONCAT(assign_result_, __LINE__) = (expression);                          \
  if (!CARYA_CONCAT(assign_result_, __LINE__))                                         \
    return std::unexpected(std::move(CARYA_CONCAT(assign_result_, __LINE__).error())); \
  target = std::move(*CARYA_CONCAT(assign_result_, __LINE__))
