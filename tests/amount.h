#pragma once

#include <cstdlib>

namespace carya {

/// CARYA_LONG=1: tests look at more than there is time for after each change.
inline bool long_tests() {
  const char* value = std::getenv("CARYA_LONG");
  return value != nullptr && value[0] == '1';
}

/// A test that compares a lot of data looks at one case of so many: at every case (1), but at one of
/// `sanitized` under the sanitizers, which take ten times as long and look for faults that do not depend on
/// the amount. Long tests look at every case there too.
inline int one_case_of(int sanitized) {
#ifdef CARYA_SANITIZED
  return long_tests() ? 1 : sanitized;
#else
  static_cast<void>(sanitized);
  return 1;
#endif
}

}  // namespace carya
