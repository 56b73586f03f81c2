#pragma once

#include <concepts>
#include <optional>

namespace carya {

/// a + b and a * b; nothing if the result does not fit. Use them for sizes from a file, a socket or a user.
template <std::integral T>
std::optional<T> checked_add(T a, T b) {
  T result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <std::integral T>
std::optional<T> checked_mul(T a, T b) {
  T result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// The next multiple of `alignment` (a power of two) at or above `value`. The caller has bounded `value`.
template <std::unsigned_integral T>
constexpr T align_up(T value, T alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace carya
