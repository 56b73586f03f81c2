#include "base/fault_point.h"

#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <string>

namespace carya {
namespace {

struct Point {
  std::string name;
  long pass = 0;
  int signal = 0;
};

Point read_point() {
  const char* text = std::getenv("CARYA_FAULT_POINT");
  if (text == nullptr) return {};
  const std::string all(text);
  const auto first = all.find(':'), second = all.rfind(':');
  if (first == std::string::npos || second == first) return {};
  return {all.substr(0, first), std::atol(all.c_str() + first + 1),
          all.substr(second + 1) == "STOP" ? SIGSTOP : SIGKILL};
}

}  // namespace

void pass_fault_point(const char* name) {
  static const Point point = read_point();
  static std::atomic<long> passes{0};
  if (point.signal == 0 || point.name != name) return;
  if (++passes == point.pass) raise(point.signal);
}

}  // namespace carya
