#pragma once

#include <initializer_list>

#include "base/error.h"

namespace carya::transforms {

/// A library that is loaded when the first file of its format is opened, and never unloaded (docs/decisions/022).
/// Threads: owner only, until it is complete.
class SharedLibrary {
 public:
  /// Load the first of `names` that is on this machine. `package`: Debian's, for the error. Errors: kUnsupported.
  static Result<SharedLibrary> load(const char* format, std::initializer_list<const char*> names,
                                    const char* package);

  /// Set `*function` to the function of this name; a missing one makes complete() an error.
  template <typename Function>
  void take(const char* name, Function& function) {
    function = reinterpret_cast<Function>(find(name));
  }
  /// Errors: kUnsupported (a function was missing).
  Status complete() const;

 private:
  SharedLibrary(const char* format, void* handle) : format_(format), handle_(handle) {}
  void* find(const char* name);

  const char* format_;
  void* handle_;
  const char* missing_ = nullptr;
};

/// What `load` gives, a Result of a library's functions, which it is asked for once in this process. Threads: thread-safe.
template <auto load>
Result<const typename decltype(load())::value_type*> loaded_once() {
  static const auto loaded = load();
  if (!loaded) return std::unexpected(loaded.error());
  return &*loaded;
}

}  // namespace carya::transforms
