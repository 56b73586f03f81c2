// The SIMD targets that every kernel is compiled for. This file is included before any Highway header, also when
// foreach_target includes the kernel again.
#ifndef HWY_WANT_AVX3_DL
#define HWY_WANT_AVX3_DL
#endif
#ifndef HWY_DISABLED_TARGETS
// SSSE3 alone is not worth its code, since every x86 processor with AVX has SSE4. SVE vectors have no fixed size, which
// the kernels need; every processor with SVE has NEON.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

// CARYA_SIMD_VECTORS: whether the kernels have vector code for HWY_TARGET, the target being compiled. All other targets
// use plain loops, with the same bits. CARYA_SIMD_NEON: whether the target is NEON, in any of Highway's variants.
#define CARYA_SIMD_X86 \
  (HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL)
#define CARYA_SIMD_NEON (HWY_ARCH_ARM_A64 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR)
#define CARYA_SIMD_VECTORS (CARYA_SIMD_X86 || CARYA_SIMD_NEON)
