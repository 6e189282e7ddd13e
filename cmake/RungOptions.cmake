# SPDX-License-Identifier: Apache-2.0
# Options, the search for their dependencies, and a summary with the reason for each missing part.
#
# RUNG_<PART> is AUTO (use it if it is found), ON (fail without it) or OFF. For each part,
# RUNG_HAVE_<PART> is 0 or 1, and RUNG_WHY_<PART> is the version found or the reason it is left out.
# `rung --version` prints both.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

function(rung_part part help)
  set(RUNG_${part} AUTO CACHE STRING "${help}: AUTO, ON or OFF")
  set_property(CACHE RUNG_${part} PROPERTY STRINGS AUTO ON OFF)
  if(NOT RUNG_${part} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "RUNG_${part} has the unknown value '${RUNG_${part}}'; use AUTO, ON or OFF")
  endif()
endfunction()

rung_part(IO_URING "io_uring engine (liburing)")
rung_part(NUMA "NUMA placement (libnuma)")
rung_part(OPENMP "parallel scores, sampling and staging (OpenMP)")
rung_part(CUDA "GPU tiers")
rung_part(BLAS "the trainer `rung train` (CBLAS, OpenBLAS)")
option(RUNG_WERROR "Treat warnings as errors" ON)
option(RUNG_STATIC_DEPS
  "Link the small libraries statically, so that the build runs on machines without them" OFF)
set(RUNG_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")
option(RUNG_FUZZ "Build tests/fuzz with libFuzzer, and rung with its instrumentation (clang)" OFF)
if(RUNG_FUZZ AND NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR
    "RUNG_FUZZ=ON needs clang, which includes libFuzzer; add -DCMAKE_C_COMPILER=clang")
endif()

# found: a condition; why: the version found; missing: the reason for leaving the part out
macro(rung_decide part found why missing)
  if(RUNG_${part} STREQUAL "OFF")
    set(RUNG_HAVE_${part} 0)
    set(RUNG_WHY_${part} "turned off at build time")
  elseif(${found})
    set(RUNG_HAVE_${part} 1)
    set(RUNG_WHY_${part} "${why}")
  elseif(RUNG_${part} STREQUAL "ON")
    message(FATAL_ERROR "RUNG_${part}=ON, but ${missing}")
  else()
    set(RUNG_HAVE_${part} 0)
    set(RUNG_WHY_${part} "${missing}")
  endif()
endmacro()

macro(rung_require prefix module package)
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${module})
  if(NOT ${prefix}_FOUND)
    message(FATAL_ERROR "${module} was not found by pkg-config (Debian: ${package})")
  endif()
endmacro()

rung_require(jansson "jansson>=2.10" libjansson-dev)
rung_require(libzip "libzip>=1.7" libzip-dev)
rung_require(zlib "zlib" zlib1g-dev)
rung_require(xxhash "libxxhash>=0.8" libxxhash-dev)
pkg_check_modules(liburing QUIET IMPORTED_TARGET liburing>=2.3)
pkg_check_modules(numa QUIET IMPORTED_TARGET numa)
pkg_check_modules(openblas QUIET IMPORTED_TARGET openblas)
set(openmp_missing "the compiler has no OpenMP runtime (Debian: libomp-dev for clang)")
if(RUNG_SANITIZE MATCHES "thread")
  # TSan would report a false race at every barrier
  set(openmp_missing "the OpenMP runtime is not built for ThreadSanitizer")
elseif(NOT RUNG_OPENMP STREQUAL "OFF")
  find_package(OpenMP QUIET COMPONENTS C)
endif()
include(RungCuda)   # sets cuda_ready, cuda_version, cuda_missing

rung_decide(IO_URING liburing_FOUND "liburing ${liburing_VERSION}"
  "liburing 2.3 or newer was not found (Debian: liburing-dev)")
rung_decide(NUMA numa_FOUND "libnuma ${numa_VERSION}" "libnuma was not found (Debian: libnuma-dev)")
rung_decide(OPENMP OpenMP_C_FOUND "OpenMP ${OpenMP_C_VERSION}" "${openmp_missing}")
# `rung train` loads OpenBLAS with dlopen(), by default by the name that linking would record.
set(RUNG_BLAS_LIBRARY "" CACHE STRING
  "OpenBLAS that `rung train` loads, such as libopenblas.so.0; empty: that of pkg-config")
if(RUNG_BLAS_LIBRARY)
  rung_decide(BLAS TRUE "${RUNG_BLAS_LIBRARY} of the system, if it is installed" "")
else()
  rung_decide(BLAS openblas_FOUND "OpenBLAS ${openblas_VERSION}"
    "OpenBLAS was not found (Debian: libopenblas-dev)")
endif()
rung_decide(CUDA cuda_ready "CUDA ${cuda_version}, for gathers on GPUs" "${cuda_missing}")

# How rung itself is compiled. Programs that link it do not inherit these flags.
add_library(rung_build INTERFACE)
target_compile_definitions(rung_build INTERFACE _GNU_SOURCE)
# -fno-math-errno and -fno-trapping-math: without them loops with a square root or a conditional
# division are not vectorised. -ffp-contract=off: no fused multiply-add, so that scores are the same
# on x86-64 and aarch64, except for the last bits of libm's functions.
target_compile_options(rung_build INTERFACE -Wall -Wextra -Wshadow -Wconversion
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  $<$<BOOL:${RUNG_WERROR}>:-Werror> $<$<CONFIG:Release>:-O3>
  -fno-math-errno -fno-trapping-math -ffp-contract=off)
if(NOT RUNG_HAVE_OPENMP)
  target_compile_options(rung_build INTERFACE -Wno-unknown-pragmas)
endif()
if(RUNG_SANITIZE)
  target_compile_options(rung_build INTERFACE -fsanitize=${RUNG_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all -g -UNDEBUG)   # assertions are on in every build type
  target_link_options(rung_build INTERFACE -fsanitize=${RUNG_SANITIZE})
endif()

if(RUNG_FUZZ)
  target_compile_options(rung_build INTERFACE -fsanitize=fuzzer-no-link)
endif()

if(CMAKE_C_COMPILER_ID MATCHES "Clang" AND (RUNG_SANITIZE OR RUNG_FUZZ))
  # instrumented loops are not vectorised
  target_compile_options(rung_build INTERFACE -Wno-pass-failed)
endif()

add_library(rung_deps INTERFACE)
target_link_libraries(rung_deps INTERFACE
  PkgConfig::jansson PkgConfig::libzip PkgConfig::zlib PkgConfig::xxhash Threads::Threads m)
# Libraries that programs linking librung.a must add, for rung.pc and rung-config.cmake. They are
# not in Requires.private: that would pull in the dependencies of libzip.a, whose -dev packages
# libzip-dev does not depend on, also for users of the shared library.
set(rung_private_libs ${jansson_LDFLAGS} ${libzip_LDFLAGS} ${zlib_LDFLAGS} ${xxhash_LDFLAGS})
if(RUNG_HAVE_IO_URING)
  target_link_libraries(rung_deps INTERFACE PkgConfig::liburing)
  list(APPEND rung_private_libs ${liburing_LDFLAGS})
endif()
if(RUNG_HAVE_NUMA)
  target_link_libraries(rung_deps INTERFACE PkgConfig::numa)
  list(APPEND rung_private_libs ${numa_LDFLAGS})
endif()
if(RUNG_HAVE_OPENMP)
  target_link_libraries(rung_deps INTERFACE OpenMP::OpenMP_C)
  list(APPEND rung_private_libs ${OpenMP_C_FLAGS})
endif()
if(RUNG_HAVE_CUDA)
  set(cuda_archives ${cuda_libs})
  if(RUNG_STATIC_DEPS)   # a copied librung.so must not load an older C++ runtime into Python
    string(REPLACE "-lstdc++" "-l:libstdc++.a" cuda_archives "${cuda_libs}")
    target_link_options(rung_deps INTERFACE -static-libgcc)
  endif()
  target_link_libraries(rung_deps INTERFACE ${cuda_archives})
  list(APPEND rung_private_libs ${cuda_libs})
endif()
list(APPEND rung_private_libs -lm -pthread)
list(REMOVE_DUPLICATES rung_private_libs)
foreach(dir ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})
  list(REMOVE_ITEM rung_private_libs -L${dir})   # the linker looks there anyway
endforeach()
list(JOIN rung_private_libs " " RUNG_PC_LIBS_PRIVATE)

# Libraries that rung's own programs link. With RUNG_STATIC_DEPS the programs run on machines
# without these libraries, except three that stay shared: libzip if it has no archive (in Debian),
# OpenBLAS, and an OpenMP runtime that is not GCC's. librung.so links only the C++ and compiler
# runtimes statically, because the other archives are not position-independent.
set(rung_jansson PkgConfig::jansson)
set(rung_openmp OpenMP::OpenMP_C)
if(NOT RUNG_STATIC_DEPS)
  add_library(rung_program_deps ALIAS rung_deps)
else()
  # Shared libraries are first searched next to the programs. DT_RPATH, unlike DT_RUNPATH, also
  # applies to the dependencies of those libraries.
  set(CMAKE_BUILD_RPATH "$ORIGIN/lib;$ORIGIN/../lib")
  add_link_options(LINKER:--disable-new-dtags)
  function(rung_archive out name package)
    find_library(RUNG_ARCHIVE_${name} NAMES lib${name}.a HINTS ${ARGN})
    mark_as_advanced(RUNG_ARCHIVE_${name})
    if(NOT RUNG_ARCHIVE_${name})
      message(FATAL_ERROR
        "RUNG_STATIC_DEPS=ON, but lib${name}.a was not found (Debian: ${package})")
    endif()
    set(${out} ${RUNG_ARCHIVE_${name}} PARENT_SCOPE)
  endfunction()
  rung_archive(rung_jansson jansson libjansson-dev)
  rung_archive(zlib_archive z zlib1g-dev)
  rung_archive(xxhash_archive xxhash libxxhash-dev)
  add_library(rung_program_deps INTERFACE)
  target_link_libraries(rung_program_deps INTERFACE
    ${rung_jansson} PkgConfig::libzip ${zlib_archive} ${xxhash_archive} Threads::Threads m)
  if(RUNG_HAVE_IO_URING)
    rung_archive(liburing_archive uring liburing-dev)
    target_link_libraries(rung_program_deps INTERFACE ${liburing_archive})
  endif()
  if(RUNG_HAVE_NUMA)
    rung_archive(numa_archive numa libnuma-dev)
    target_link_libraries(rung_program_deps INTERFACE ${numa_archive})
  endif()
  if(RUNG_HAVE_OPENMP)
    if(OpenMP_gomp_LIBRARY)
      get_filename_component(gomp ${OpenMP_gomp_LIBRARY} DIRECTORY)
      rung_archive(gomp_archive gomp libgcc-12-dev ${gomp})
      add_library(rung_gomp INTERFACE)
      target_compile_options(rung_gomp INTERFACE ${OpenMP_C_FLAGS})
      target_link_libraries(rung_gomp INTERFACE
        ${gomp_archive} Threads::Threads ${CMAKE_DL_LIBS})
      set(rung_openmp rung_gomp)
    endif()
    target_link_libraries(rung_program_deps INTERFACE ${rung_openmp})
  endif()
  if(RUNG_HAVE_CUDA)
    target_link_libraries(rung_program_deps INTERFACE ${cuda_archives})
    target_link_options(rung_program_deps INTERFACE -static-libgcc)
  endif()
endif()

add_library(rung_tool_deps INTERFACE)
target_link_libraries(rung_tool_deps INTERFACE ${rung_jansson} m)
if(RUNG_HAVE_OPENMP)
  target_link_libraries(rung_tool_deps INTERFACE ${rung_openmp})
endif()
if(RUNG_HAVE_BLAS)
  target_link_libraries(rung_tool_deps INTERFACE ${CMAKE_DL_LIBS})
endif()
if(RUNG_HAVE_BLAS AND NOT RUNG_BLAS_LIBRARY)
  find_library(RUNG_OPENBLAS openblas HINTS ${openblas_LIBRARY_DIRS} NO_CACHE REQUIRED)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${RUNG_OPENBLAS}
                  OUTPUT_VARIABLE openblas_headers ERROR_QUIET)
  if(openblas_headers MATCHES "SONAME +([^ \n]+)")
    set(RUNG_BLAS_LIBRARY ${CMAKE_MATCH_1})
  else()
    get_filename_component(RUNG_BLAS_LIBRARY ${RUNG_OPENBLAS} NAME)
  endif()
  list(APPEND CMAKE_BUILD_RPATH ${openblas_LIBRARY_DIRS})
endif()

find_package(Git QUIET)
# `git archive` writes the commit to commit.txt. The length of %h would depend on the clone.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/commit.txt RUNG_COMMIT)
string(SUBSTRING "${RUNG_COMMIT}" 0 12 RUNG_COMMIT)
if(NOT RUNG_COMMIT MATCHES "^[0-9a-f]+$")
  set(RUNG_COMMIT unknown)
endif()
if(GIT_FOUND AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    OUTPUT_VARIABLE RUNG_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE git_rc)
  if(git_rc)
    set(RUNG_COMMIT unknown)
  endif()
  set(head_log ${CMAKE_CURRENT_SOURCE_DIR}/.git/logs/HEAD)
  if(EXISTS ${head_log})   # configure again after each commit
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${head_log})
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/rung_config.h.in
  ${CMAKE_CURRENT_BINARY_DIR}/generated/rung_config.h @ONLY)

function(rung_print_summary)
  set(compiler "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}")
  message(STATUS "rung ${PROJECT_VERSION} (${RUNG_COMMIT}), ${compiler}, "
    "${CMAKE_BUILD_TYPE}${RUNG_SANITIZE}")
  foreach(part IO_URING NUMA OPENMP CUDA BLAS)
    string(TOLOWER ${part} name)
    if(RUNG_HAVE_${part})
      message(STATUS "  ${name}: yes, ${RUNG_WHY_${part}}")
    else()
      message(STATUS "  ${name}: no, ${RUNG_WHY_${part}}")
    endif()
  endforeach()
  if(NOT RUNG_CORE_ONLY)
    message(STATUS "  man pages: ${RUNG_WHY_MAN}")
  endif()
endfunction()
