#pragma once

/// A named point of a protocol at which tests/faults stops or kills the process. It compiles to nothing unless
/// CARYA_FAULT_POINTS is defined, as it is for the tests' copies of the programs.
#ifdef CARYA_FAULT_POINTS
namespace carya {
/// Raise a signal at the n-th pass of a point. The environment names them: CARYA_FAULT_POINT="publish.tail:37:KILL" (or
/// STOP).
void pass_fault_point(const char* name);
}  // namespace carya
#define FAULT_POINT(name) ::carya::pass_fault_point(name)
#else
#define FAULT_POINT(name) static_cast<void>(0)
#endif
