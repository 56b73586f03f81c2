# Cross build for aarch64 with Clang, against the arm64 Debian 12 that tools/arm_root.sh unpacks; tests run in qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-root ABSOLUTE)
if(NOT EXISTS ${root}/carya.stamp)
  message(FATAL_ERROR "${root} is not there, or not whole. Run:  tools/arm_root.sh")
endif()
set(CMAKE_SYSROOT ${root})
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -fuse-ld=lld)  # the machine's own ld knows no aarch64
endforeach()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L ${root})

# Libraries and headers from there alone; programs from this machine; packages also from .venv (pybind11).
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/aarch64-linux-gnu/pkgconfig:${root}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})

# The extension is for the Python in there, whatever Python .venv has.
set(Python_INCLUDE_DIR ${root}/usr/include/python3.11)
set(PYTHON_MODULE_EXTENSION .cpython-311-aarch64-linux-gnu.so)
