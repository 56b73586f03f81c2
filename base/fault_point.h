#pragma once

/// A named place inside a protocol at which tests/faults stops or kills the process. Nothing at all in builds
/// for use: only the test's twins of the programs are compiled with CARYA_FAULT_POINTS.
#ifdef CARYA_FAULT_POINTS
namespace carya {
/// The n-th pass of a point raises the signal, as CARYA_FAULT_POINT="publish.tail:37:KILL" (or STOP) says.
void pass_fault_point(const char* name);
}  // namespace carya
#define FAULT_POINT(name) ::carya::pass_fault_point(name)
#else
#define FAULT_POINT(name) static_cast<void>(0)
#endif
