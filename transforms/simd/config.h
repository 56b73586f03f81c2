// The SIMD targets that every kernel is compiled for. Included before any Highway header, also on its second
// round.
#ifndef HWY_WANT_AVX3_DL
#define HWY_WANT_AVX3_DL
#endif
#ifndef HWY_DISABLED_TARGETS
// SSSE3 alone is not worth its code: every x86 processor with AVX has SSE4.
// SVE: its vectors have no fixed size, which the kernels need; every processor with SVE has NEON.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

// Whether HWY_TARGET, the target that a file is being compiled for, has vector code in the kernels; all
// others take plain loops, which give the same bits. CARYA_SIMD_NEON: it is NEON, in any of the forms that
// Highway tells apart.
#define CARYA_SIMD_X86 \
  (HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL)
#define CARYA_SIMD_NEON (HWY_ARCH_ARM_A64 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR)
#define CARYA_SIMD_VECTORS (CARYA_SIMD_X86 || CARYA_SIMD_NEON)
