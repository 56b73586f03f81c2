// The SIMD targets that every kernel is compiled for. Included before any Highway header, also on its second
// round.
#ifndef HWY_WANT_AVX3_DL
#define HWY_WANT_AVX3_DL
#endif
#ifndef HWY_DISABLED_TARGETS
// SSSE3 alone is not worth its code: every x86 processor with AVX has SSE4.
#define HWY_DISABLED_TARGETS HWY_SSSE3
#endif
