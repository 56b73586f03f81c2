# How every module becomes one target. Files are globbed: a new file pair needs no edit here.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# Found here, at the top, because an imported target is only visible in the folder that found it and below.
# Which folder may use which of them: DESIGN section 11.
find_package(nlohmann_json REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(SPNG REQUIRED IMPORTED_TARGET spng)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET openssl>=3.0)
find_path(CARYA_BOOST_DIR boost/interprocess/mapped_region.hpp REQUIRED)  # headers only: nothing of Boost is linked
find_path(CARYA_CURL_DIR curl/curl.h REQUIRED)  # the header only: libcurl is loaded when a URL is opened
add_library(carya_curl INTERFACE)
target_include_directories(carya_curl SYSTEM INTERFACE ${CARYA_CURL_DIR})
# Headers only, too: the decoders of audio are loaded when a file of their format is opened (docs/decisions/022).
add_library(carya_codecs INTERFACE)
foreach(header FLAC/stream_decoder.h mpg123.h vorbis/vorbisfile.h ogg/ogg.h opus/opusfile.h opus/opus_multistream.h soxr.h)
  string(MAKE_C_IDENTIFIER "CARYA_${header}_DIR" folder)
  find_path(${folder} ${header} REQUIRED)
  target_include_directories(carya_codecs SYSTEM INTERFACE ${${folder}})
  if(header MATCHES "^opus/")  # opusfile.h names its neighbours without the folder
    target_include_directories(carya_codecs SYSTEM INTERFACE ${${folder}}/opus)
  endif()
endforeach()
add_library(carya_boost INTERFACE)
target_include_directories(carya_boost SYSTEM INTERFACE ${CARYA_BOOST_DIR})

include(cmake/highway.cmake)
include(cmake/fmt.cmake)

add_library(carya_flags INTERFACE)
target_include_directories(carya_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(carya_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off -fno-math-errno
  -Wno-missing-field-initializers)  # options are designated initializers over commented defaults (STYLE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(carya_flags INTERFACE -Wthread-safety)  # what base/mutex.h says of locks
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(carya_flags INTERFACE -Wno-dangling-else)  # EXPECT_EQ() behind an if without braces
endif()
if("${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" MATCHES "^(Clang 19|GNU 12)\\." AND NOT CARYA_QUICK)
  target_compile_options(carya_flags INTERFACE -Werror)  # other compilers may warn of what nobody has seen here
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(carya_flags INTERFACE -Wno-restrict)  # false alarm on "text" + std::string: GCC bug 105651
endif()
target_link_libraries(carya_flags INTERFACE Threads::Threads)
if(CARYA_SANITIZE)
  # Not vptr: it asks the kernel for a pipe to look at memory, and cries wolf in tests that run out of descriptors.
  target_compile_options(carya_flags INTERFACE -fsanitize=${CARYA_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_compile_definitions(carya_flags INTERFACE CARYA_SANITIZED)  # the heap is the sanitizer's
  target_link_options(carya_flags INTERFACE -fsanitize=${CARYA_SANITIZE})
endif()
if(CARYA_FUZZ)  # not the tests' own code, which takes a quarter longer to compile with it: no fuzz target has any of it
  target_compile_options(carya_flags INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:CARYA_TEST>>>:-fsanitize=fuzzer-no-link>)
endif()
find_program(CARYA_MOLD NAMES mold)
if(CARYA_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
# Two ways to compile less: objects of an earlier build (ccache), for who builds again and again, and precompiled headers,
# for who builds once: half of the work of a first build is reading the same headers. Precompiled headers differ from
# one checkout to the next, so the two do not go together. GCC builds without, which shows a missing #include.
find_program(CARYA_CCACHE NAMES ccache)
set(first_build OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND (NOT CARYA_CCACHE OR SKBUILD OR DEFINED ENV{CI}))
  set(first_build ON)
endif()
option(CARYA_PCH "Precompile headers, and do without ccache" ${first_build})
if(CARYA_CCACHE AND NOT CARYA_PCH)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CARYA_CCACHE})
endif()
set(CMAKE_PCH_INSTANTIATE_TEMPLATES ON)
# A third way, for builds that are made once and not shipped: many sources are compiled as one, for two thirds of the time.
# What is shipped is compiled source by source. tools/unity.py takes apart what does not go together.
set(unity "")
if(first_build AND NOT SKBUILD)
  set(unity TESTS)
  if(DEFINED ENV{CARYA_UNITY})  # tools/ci.py
    set(unity $ENV{CARYA_UNITY})
  endif()
endif()
set(CARYA_UNITY "${unity}" CACHE STRING "Sources that are joined: TESTS, ALL, or nothing")
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
target_compile_options(carya_flags INTERFACE $<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:-Wno-shadow>)  # other builds look
if(CARYA_UNITY STREQUAL "ALL")
  set(CMAKE_UNITY_BUILD ON)
  if(first_build AND NOT CARYA_SANITIZE)
    set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)  # less is compiled again for each mutant
  endif()
endif()
if(CARYA_UNITY)
  list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/tools/unity.py)
endif()

# carya_precompiled(<target> FOR <group> HEADERS <headers>): one precompiled set for all targets of a group, which are
# compiled with the same options; the group's first target makes it.
function(carya_precompiled target)
  cmake_parse_arguments(M "" "FOR" "HEADERS" ${ARGN})
  get_property(first GLOBAL PROPERTY carya_precompiled_${M_FOR})
  if(NOT CARYA_PCH OR CARYA_BUILT)  # of a built library little is left to compile
    return()
  elseif(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY carya_precompiled_${M_FOR} ${target})
    target_precompile_headers(${target} PRIVATE ${M_HEADERS})
  endif()
endfunction()
set(CARYA_STD_HEADERS <algorithm> <array> <atomic> <chrono> <condition_variable> <cstdint> <deque> <expected> <filesystem>
  <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view> <thread> <unordered_map> <variant> <vector>)
# Of modules also the dear ones of our own that many sources read: an eighth less for those. GCC's build, which does
# without, and clang-tidy show the #include that a source lacks.
set(CARYA_MODULE_HEADERS <nlohmann/json.hpp> <fmt/core.h> <base/error.h> <base/hash.h> <transforms/op/params.h>
  <transforms/pipeline/pipeline.h> <transforms/plan/plan.h> <loader/data/dataset.h>)

# carya_optimized(<target> <name> <group>): under the sanitizers and in quick builds, only what computes a lot is optimized.
# Sets `group` to the group of precompiled headers, whose options must be the target's.
set(CARYA_COMPUTING base simd jpeg coefficients text audio transforms autotune)
function(carya_optimized target name group)
  set(group ${group} PARENT_SCOPE)
  if(group STREQUAL "tests" AND NOT CARYA_SANITIZE AND (CARYA_QUICK OR CMAKE_CXX_COMPILER_ID STREQUAL "Clang"))
    target_compile_options(${target} PRIVATE -O1)  # the tests' own code: what they test is as it is shipped
  elseif((CARYA_SANITIZE OR CARYA_QUICK) AND name IN_LIST CARYA_COMPUTING)
    target_compile_options(${target} PRIVATE $<IF:$<BOOL:${CARYA_QUICK}>,-O3,-O1>)
    set(group ${group}_optimized PARENT_SCOPE)
  endif()
endfunction()

# carya_apart(<sources>): those of them that are compiled once per SIMD target, which must not be joined with others.
function(carya_apart)
  foreach(source ${ARGN})
    file(STRINGS ${source} per_target REGEX "foreach_target" LIMIT_COUNT 1)
    if(per_target)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# A build whose static libraries are linked in place of compiling them again, for each CPython (tools/wheel.sh).
set(CARYA_BUILT "" CACHE PATH "Folder of an up-to-date release build of the same sources and compiler, or nothing")

# carya_module(<name> DEPS <carya modules> LIBS <third party> APART <sources>): the static library carya::<name> of this
# folder, but for the sources that are a library of their own.
function(carya_module name)
  cmake_parse_arguments(M "" "" "DEPS;LIBS;SUBDIRS;APART" ${ARGN})
  if(CARYA_BUILT)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
    add_library(carya_${name} STATIC IMPORTED GLOBAL)
    add_library(carya::${name} ALIAS carya_${name})
    set_target_properties(carya_${name} PROPERTIES IMPORTED_LOCATION ${CARYA_BUILT}/${folder}/libcarya_${name}.a)
    target_link_libraries(carya_${name} INTERFACE carya_flags ${M_DEPS} carya_fmt ${M_LIBS})
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS *.cc *.h)
  foreach(sub ${M_SUBDIRS})
    file(GLOB more CONFIGURE_DEPENDS ${sub}/*.cc ${sub}/*.h)
    list(APPEND sources ${more})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "_main\\.cc$")
  list(TRANSFORM M_APART PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(REMOVE_ITEM sources ${M_APART})
  if(NOT sources MATCHES "\\.cc")
    add_library(carya_${name} INTERFACE)
    add_library(carya::${name} ALIAS carya_${name})
    target_link_libraries(carya_${name} INTERFACE carya_flags ${M_DEPS})
    return()
  endif()
  carya_apart(${sources})
  add_library(carya_${name} STATIC ${sources})
  add_library(carya::${name} ALIAS carya_${name})
  target_link_libraries(carya_${name} PUBLIC carya_flags ${M_DEPS} PRIVATE carya_fmt ${M_LIBS})
  set_target_properties(carya_${name} PROPERTIES LINKER_LANGUAGE CXX)
  carya_optimized(carya_${name} ${name} modules)
  carya_precompiled(carya_${name} FOR ${group} HEADERS ${CARYA_STD_HEADERS} ${CARYA_MODULE_HEADERS})
endfunction()

# carya_shipped(<target>): a program or library that is installed. It brings the C++ runtime along, because the host may
# have an older one, without the parts that nothing uses: they would ask for a newer glibc (arc4random). mold leaves
# their symbols in, so GNU ld links these, or lld for another architecture.
function(carya_shipped target)
  if(NOT CARYA_SANITIZE)
    target_link_options(${target} PRIVATE -fuse-ld=$<IF:$<BOOL:${CMAKE_CROSSCOMPILING}>,lld,bfd> -static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--gc-sections
      $<$<BOOL:${SKBUILD}>:-Wl,--strip-debug>)
  endif()
endfunction()

# carya_test(<name> DEPS <modules>): one GoogleTest program of every *_test.cc in this folder.
function(carya_test name)
  cmake_parse_arguments(M "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *_test.cc *_test_lib.cc)
  if(sources)
    carya_apart(${sources})
    add_executable(${name}_test ${sources})
    set_target_properties(${name}_test PROPERTIES CARYA_TEST ON)
    if(CARYA_UNITY)
      set_target_properties(${name}_test PROPERTIES UNITY_BUILD ON)
    endif()
    target_link_libraries(${name}_test PRIVATE ${M_DEPS} ${M_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
    carya_optimized(${name}_test ${name} tests)
    carya_precompiled(${name}_test FOR ${group} HEADERS ${CARYA_STD_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
    gtest_discover_tests(${name}_test DISCOVERY_TIMEOUT 120 PROPERTIES TIMEOUT 600 LABELS ${name})
  endif()
endfunction()

# carya_bench(<file> DEPS <modules>): the bench program bench_<file>.
function(carya_bench file)
  cmake_parse_arguments(M "" "" "DEPS;LIBS" ${ARGN})
  add_executable(bench_${file} ${file}.cc)
  set_target_properties(bench_${file} PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(bench_${file} PRIVATE ${M_DEPS} ${M_LIBS})
  carya_precompiled(bench_${file} FOR benches HEADERS ${CARYA_STD_HEADERS})
endfunction()

# carya_fuzz(<name> DEPS <modules>): the libFuzzer program fuzz_<name> of <name>_fuzz.cc.
function(carya_fuzz name)
  cmake_parse_arguments(M "" "" "DEPS;LIBS" ${ARGN})
  add_executable(fuzz_${name} ${name}_fuzz.cc)
  target_link_libraries(fuzz_${name} PRIVATE ${M_DEPS} ${M_LIBS})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
endfunction()
