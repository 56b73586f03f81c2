#include "transforms/audio/codec/shared_library.h"

#include <dlfcn.h>

#include <string>

namespace carya::transforms {

Result<SharedLibrary> SharedLibrary::load(const char* format, std::initializer_list<const char*> names,
                                          const char* package) {
  for (const char* name : names)
    if (void* const handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return SharedLibrary(format, handle);
  return fail(Code::kUnsupported, std::string(format) + ": " + *names.begin() +
                                      " is not on this machine; install it (Debian: apt-get install " +
                                      package + ")");
}

void* SharedLibrary::find(const char* name) {
  void* const function = ::dlsym(handle_, name);
  if (function == nullptr) missing_ = name;
  return function;
}

Status SharedLibrary::complete() const {
  if (missing_ == nullptr) return {};
  return fail(Code::kUnsupported, std::string(format_) + ": the library of this machine has no " + missing_ +
                                      "; install a newer one");
}

}  // namespace carya::transforms
