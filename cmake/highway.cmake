# The target carya_highway: Highway's headers, without its library (transforms/simd/targets.cc takes its place).
#
# Highway 1.0.3 (Debian 12) compiles the functions of its target AVX3_DL with "avxvnni" where the instruction set
# that it checks for at run time is "avx512vnni". Compilers then use the VEX forms of VNNI, which Ice Lake and Zen 4
# do not have: the process ends with SIGILL. There, a corrected copy of the one header stands before the installed
# one in the include path. Later versions name the right set and are used as they are.

find_path(CARYA_HIGHWAY_DIR hwy/highway.h REQUIRED)
add_library(carya_highway INTERFACE)

set(macros hwy/ops/set_macros-inl.h)
file(READ ${CARYA_HIGHWAY_DIR}/${macros} text)
if(NOT text MATCHES "avx512vnni")
  string(REPLACE ",avxvnni," ",avx512vnni," corrected "${text}")
  if(corrected STREQUAL text)
    message(FATAL_ERROR "${CARYA_HIGHWAY_DIR}/${macros} names VNNI neither as Highway 1.0.3 nor as later versions do. "
      "Look at what AVX3_DL is compiled with there, and extend cmake/highway.cmake.")
  endif()
  set(place ${PROJECT_BINARY_DIR}/highway)
  file(CONFIGURE OUTPUT ${place}/${macros} CONTENT "${corrected}" @ONLY)
  target_include_directories(carya_highway SYSTEM BEFORE INTERFACE ${place})
  message(STATUS "Highway: ${macros} corrected for AVX3_DL (avx512vnni)")
endif()
target_include_directories(carya_highway SYSTEM INTERFACE ${CARYA_HIGHWAY_DIR})
