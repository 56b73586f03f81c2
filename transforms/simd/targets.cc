// Which SIMD target runs. Highway's headers compile the kernels and dispatch to them; they ask the functions
// of namespace hwy at the end of this file which targets the machine has. Highway's own library is not
// linked: the answer must come from the same table that the tests hold the machine code against
// (test_simd.py), and wheels need one shared library less.

#include "transforms/simd/targets.h"

#include "transforms/simd/config.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace carya {
namespace {

constexpr std::int64_t kCompiled = HWY_TARGETS;
constexpr std::int64_t kBaseline = HWY_STATIC_TARGET;

struct InstructionSet {
  const char* name;
  bool (*present)();  // in the processor, with registers that the kernel saves
};

struct TargetNeeds {
  std::int64_t target;
  std::span<const InstructionSet> sets;  // beyond those of the next lower target in the table
};

#if HWY_ARCH_X86

// The compiler's runtime reads CPUID, and XGETBV for what the kernel saves.
#define CARYA_SET(name)                                    \
  InstructionSet {                                         \
    name, [] { return __builtin_cpu_supports(name) != 0; } \
  }

// What each target's functions are compiled with (HWY_TARGET_STR), and popcnt, which compilers add to
// SSE 4.2.
constexpr InstructionSet kSse4[] = {CARYA_SET("sse2"),   CARYA_SET("ssse3"),  CARYA_SET("sse4.1"),
                                    CARYA_SET("sse4.2"), CARYA_SET("popcnt"), CARYA_SET("pclmul"),
                                    CARYA_SET("aes")};
constexpr InstructionSet kAvx2[] = {CARYA_SET("avx"),  CARYA_SET("avx2"), CARYA_SET("bmi"),
                                    CARYA_SET("bmi2"), CARYA_SET("fma"),  CARYA_SET("f16c")};
constexpr InstructionSet kAvx3[] = {CARYA_SET("avx512f"), CARYA_SET("avx512vl"), CARYA_SET("avx512dq"),
                                    CARYA_SET("avx512bw"), CARYA_SET("avx512cd")};
constexpr InstructionSet kAvx3Dl[] = {CARYA_SET("avx512vnni"),
                                      CARYA_SET("avx512vbmi"),
                                      CARYA_SET("avx512vbmi2"),
                                      CARYA_SET("avx512bitalg"),
                                      CARYA_SET("avx512vpopcntdq"),
                                      CARYA_SET("vpclmulqdq"),
                                      CARYA_SET("vaes"),
                                      CARYA_SET("gfni")};
#ifdef HWY_AVX3_ZEN4  // Highway 1.0.4 and later
constexpr InstructionSet kAvx3Zen4[] = {CARYA_SET("avx512bf16")};
#endif
#undef CARYA_SET

// Lowest first: each target needs its own sets and those of all before it.
constexpr TargetNeeds kNeeds[] = {
    {HWY_SSE4, kSse4},          {HWY_AVX2, kAvx2}, {HWY_AVX3, kAvx3}, {HWY_AVX3_DL, kAvx3Dl},
#ifdef HWY_AVX3_ZEN4
    {HWY_AVX3_ZEN4, kAvx3Zen4},
#endif
};

#else

// Elsewhere the kernels are compiled for the baseline alone.
constexpr std::span<const TargetNeeds> kNeeds;

#endif

/// The sets that `target` needs. Nothing for a target that no row describes and that is not the baseline:
/// such a target never runs (see describe()).
std::vector<InstructionSet> needs_of(std::int64_t target) {
  std::vector<InstructionSet> all;
  for (const TargetNeeds& row : kNeeds) {
    all.insert(all.end(), row.sets.begin(), row.sets.end());
    if (row.target == target) return all;
  }
  return {};
}

SimdTarget describe(std::int64_t target) {
  SimdTarget described{.name = hwy::TargetName(target), .needs = {}, .missing = {}};
  if (target == kBaseline) return described;
  for (const InstructionSet& set : needs_of(target)) {
    described.needs.emplace_back(set.name);
    if (!set.present()) described.missing.emplace_back(set.name);
  }
  if (described.needs.empty()) described.missing.emplace_back("a description in Carya");
  return described;
}

/// The compiled targets, best first: Highway gives better targets lower bits.
std::vector<std::int64_t> compiled_targets() {
  std::vector<std::int64_t> targets;
  for (std::int64_t rest = kCompiled; rest != 0; rest &= rest - 1) targets.push_back(rest & -rest);
  return targets;
}

/// 0 when no such target runs here.
std::int64_t runnable_target(std::string_view name) {
  for (const std::int64_t target : compiled_targets()) {
    if (name == hwy::TargetName(target) && describe(target).missing.empty()) return target;
  }
  return 0;
}

std::int64_t all_runnable_targets() {
  std::int64_t targets = 0;
  for (const std::int64_t target : compiled_targets()) {
    if (describe(target).missing.empty()) targets |= target;
  }
  return targets;
}

std::string_view environment_choice() {
  const char* const value = std::getenv("CARYA_SIMD");
  return value == nullptr ? "" : value;
}

std::int64_t targets_of_the_start() {
  const std::int64_t chosen = runnable_target(environment_choice());
  return chosen != 0 ? chosen : all_runnable_targets();
}

/// The targets that dispatch may choose from; the best of them runs.
std::atomic<std::int64_t>& allowed_targets() {
  static std::atomic<std::int64_t> targets = targets_of_the_start();
  return targets;
}

std::unexpected<Error> not_runnable(const std::string& subject) {
  std::string known;
  for (const std::string& name : simd_targets()) known += (known.empty() ? "" : ", ") + name;
  return fail(Code::kInvalidArgument,
              subject + ": no SIMD target of that name runs on this machine; use one of " + known);
}

}  // namespace

std::vector<SimdTarget> compiled_simd_targets() {
  std::vector<SimdTarget> all;
  for (const std::int64_t target : compiled_targets()) all.push_back(describe(target));
  return all;
}

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const SimdTarget& target : compiled_simd_targets()) {
    if (target.missing.empty()) names.push_back(target.name);
  }
  return names;
}

std::string simd_target() {
  const std::int64_t allowed = allowed_targets();
  return hwy::TargetName(allowed & -allowed);
}

Status force_simd_target(const std::string& name) {
  const std::int64_t targets = name.empty() ? targets_of_the_start() : runnable_target(name);
  if (targets == 0) return not_runnable(name);
  allowed_targets() = targets;
  hwy::GetChosenTarget().Update(targets);
  return {};
}

Status check_simd_environment() {
  const std::string chosen(environment_choice());
  if (chosen.empty() || runnable_target(chosen) != 0) return {};
  return not_runnable("CARYA_SIMD=" + chosen);
}

}  // namespace carya

// The run-time half of Highway that its headers call. They declare these functions; the contracts are theirs.
namespace hwy {

std::int64_t SupportedTargets() {
  return carya::allowed_targets();
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

void Abort(const char* file, int line, const char* format, ...) {
  std::fprintf(stderr, "%s:%d: ", file, line);
  va_list values;
  va_start(values, format);
  std::vfprintf(stderr, format, values);
  va_end(values);
  std::abort();
}

}  // namespace hwy
