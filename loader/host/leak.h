#pragma once

#include <type_traits>
#include <utility>

namespace carya::loader {

/// Move an object to memory that is never given back, so that its destructor never runs.
///
/// A forked child inherits objects whose destructors would join threads that only the parent has, or end what
/// the parent still uses. The child gives such objects up in this way. Cost: the object's memory.
template <typename T>
  requires(!std::is_lvalue_reference_v<T>)
void leak(T&& object) {
  static_cast<void>(new std::remove_const_t<T>(std::forward<T>(object)));
}

}  // namespace carya::loader
