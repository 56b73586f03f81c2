#pragma once

#include <cerrno>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace carya {

/// The kinds of errors that callers treat differently.
enum class Code : std::uint8_t {
  kInvalidArgument,  ///< the caller asked for something impossible
  kNotFound,         ///< a file, record or name does not exist
  kPermission,       ///< the system refuses access
  kCorrupt,          ///< bytes are broken: only this code makes a sample bad data
  kIo,               ///< storage failed, a file changed or vanished, or a read timed out: never bad data
  kTimeout,          ///< a bounded wait ended
  kExhausted,        ///< a limit is reached: memory, slots, descriptors
  kUnsupported,      ///< a format, feature or kernel facility is missing
  kClosed,           ///< the object was closed
  kForked,           ///< the object was used in a forked child
};

/// The name of a code in messages and logs: "invalid_argument", "not_found", ...
std::string_view code_name(Code code);

/// An error: its kind, a message with the subject and the numbers, and the errno if there was one (else 0).
struct Error {
  Code code;
  std::string message;
  int sys_errno = 0;
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

/// Make an error that a function returns as its Result: `return fail(Code::kCorrupt, "read x: wanted 4 B, got 2 B");`.
inline std::unexpected<Error> fail(Code code, std::string message, int sys_errno = 0) {
  return std::unexpected<Error>(Error{code, std::move(message), sys_errno});
}

/// Make an error from errno. The message is `subject: strerror`, with the cure if a limit of the system was reached.
/// The code follows from the errno: ENOENT is kNotFound; EACCES and EPERM are kPermission; ENOMEM, ENOSPC, EMFILE and
/// ENFILE are kExhausted; all others are kIo.
std::unexpected<Error> fail_errno(std::string_view subject, int sys_errno);

/// Print the location and end the process. CHECK calls it.
[[noreturn]] void check_failed(const char* file, int line, const char* condition);

/// The error to return when there is no memory for a better one. The message fits into a string without allocation.
inline Error out_of_memory() noexcept {
  return {Code::kExhausted, "out of memory", ENOMEM};
}

}  // namespace carya

/// Ends the process if the condition is false, which is a bug. It is active in all builds.
#define CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::carya::check_failed(__FILE__, __LINE__, #condition))

#define CARYA_CONCAT_INNER(a, b) a##b
#define CARYA_CONCAT(a, b) CARYA_CONCAT_INNER(a, b)

/// TRY(expression): if the expression's Result is an error, return that error from this function.
#define TRY(expression)                                                                                     \
  do {                                                                                                      \
    if (auto try_status = (expression); !try_status) return std::unexpected(std::move(try_status.error())); \
  } while (false)

/// ASSIGN(auto x, expression): set x to the value; if there is an error, return it from this function.
#define ASSIGN(target, expression)                                                     \
  auto CARYA_CONCAT(assign_result_, __LINE__) = (expression);                          \
  if (!CARYA_CONCAT(assign_result_, __LINE__))                                         \
    return std::unexpected(std::move(CARYA_CONCAT(assign_result_, __LINE__).error())); \
  target = std::move(*CARYA_CONCAT(assign_result_, __LINE__))
