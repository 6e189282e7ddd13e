# SPDX-License-Identifier: Apache-2.0
# Calls nvcc directly, so that rung stays a C project. With CUDA as a CMake language, a C++ compiler
# would link every program that uses librung.a, in users' projects too, which need no CUDA.
#
# CUDACXX (environment) or RUNG_NVCC names nvcc; otherwise it is searched. CMAKE_CUDA_ARCHITECTURES
# and CMAKE_CUDA_HOST_COMPILER have CMake's meaning: 90 generates code for sm_90 and PTX, 90-real
# only the code, 90-virtual only the PTX.

set(CMAKE_CUDA_ARCHITECTURES "75;80;86;89;90;100;120" CACHE STRING
  "GPU architectures to compile for; those that nvcc does not support are left out")
set(CMAKE_CUDA_HOST_COMPILER "" CACHE FILEPATH "C++ compiler that nvcc uses; empty: nvcc's default")
find_program(RUNG_NVCC nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin)
if(NOT RUNG_NVCC AND EXISTS "$ENV{CUDACXX}")
  set(RUNG_NVCC $ENV{CUDACXX} CACHE FILEPATH "nvcc" FORCE)
endif()
mark_as_advanced(RUNG_NVCC CMAKE_CUDA_ARCHITECTURES CMAKE_CUDA_HOST_COMPILER)

set(cuda_ready FALSE)
set(cuda_host_flags)
if(CMAKE_CUDA_HOST_COMPILER)
  set(cuda_host_flags -ccbin ${CMAKE_CUDA_HOST_COMPILER})
endif()

# Sets flags_out to nvcc's flags for the architectures of `wanted` that nvcc supports.
function(rung_cuda_architectures wanted flags_out)
  execute_process(COMMAND ${RUNG_NVCC} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  set(flags)
  foreach(arch ${wanted})
    string(REGEX REPLACE "-.*" "" number ${arch})
    if(NOT known MATCHES "compute_${number}(\n|$)")
      continue()
    endif()
    if(arch MATCHES "-real$")
      set(code sm_${number})
    elseif(arch MATCHES "-virtual$")
      set(code compute_${number})
    else()
      set(code [compute_${number},sm_${number}])
    endif()
    list(APPEND flags -gencode arch=compute_${number},code=${code})
  endforeach()
  set(${flags_out} "${flags}" PARENT_SCOPE)
endfunction()

# Checks that nvcc compiles and that its runtime is found: once per nvcc, host compiler and list of
# architectures.
function(rung_cuda_probe)
  set(tried "${RUNG_NVCC} ${CMAKE_CUDA_HOST_COMPILER} ${CMAKE_CUDA_ARCHITECTURES}, headers")
  if(tried STREQUAL "${RUNG_CUDA_TRIED}")
    return()
  endif()
  set(folder ${CMAKE_BINARY_DIR}/cuda_probe)
  file(WRITE ${folder}/probe.cu "__global__ void probe(int *out) { *out = 1; }\n")
  rung_cuda_architectures("${CMAKE_CUDA_ARCHITECTURES}" arch_flags)
  list(SUBLIST arch_flags 0 2 arch_flags)
  execute_process(
    COMMAND ${RUNG_NVCC} ${cuda_host_flags} ${arch_flags} -std=c++17 -c probe.cu -o probe.o
    WORKING_DIRECTORY ${folder} RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE text)
  execute_process(COMMAND ${RUNG_NVCC} --version OUTPUT_VARIABLE version ERROR_QUIET)
  string(REGEX REPLACE ".* V([0-9.]+).*" "\\1" version "${version}")
  get_filename_component(real ${RUNG_NVCC} REALPATH)
  get_filename_component(root ${real} DIRECTORY)
  unset(runtime CACHE)
  set(target ${root}/../targets/${CMAKE_SYSTEM_PROCESSOR}-linux)
  find_library(runtime cudart_static PATHS ${root}/../lib64 ${root}/../lib ${target}/lib
    ${root}/../lib/${CMAKE_LIBRARY_ARCHITECTURE} NO_CACHE NO_CMAKE_FIND_ROOT_PATH)
  find_path(include_folder cuda_runtime_api.h PATHS ${root}/../include ${target}/include
    NO_DEFAULT_PATH NO_CACHE NO_CMAKE_FIND_ROOT_PATH)
  if(NOT include_folder)
    find_path(include_folder cuda_runtime_api.h NO_CACHE)
  endif()
  if(version VERSION_LESS 12.5)   # cudaGetDriverEntryPointByVersion
    set(why "the CUDA toolkit is version ${version}; 12.5 or newer is needed")
  elseif(NOT arch_flags)
    set(why "nvcc supports no architecture of CMAKE_CUDA_ARCHITECTURES")
  elseif(failed)
    string(REGEX MATCH "[^\n]*(error|fatal|not supported|No such)[^\n]*" line "${text}")
    string(REGEX REPLACE "[\"\\\\;]" "'" line "${line}")
    set(why "nvcc does not compile: ${line}")
  elseif(NOT runtime)
    set(why "libcudart_static.a was not found next to nvcc")
  elseif(NOT include_folder)
    set(why "cuda_runtime_api.h was not found next to nvcc")
  else()
    set(why "")
  endif()
  set(RUNG_CUDA_TRIED "${tried}" CACHE INTERNAL "")
  set(RUNG_CUDA_MISSING "${why}" CACHE INTERNAL "")
  set(RUNG_CUDA_VERSION "${version}" CACHE INTERNAL "")
  set(RUNG_CUDA_RUNTIME "${runtime}" CACHE INTERNAL "")
  set(RUNG_CUDA_INCLUDE "${include_folder}" CACHE INTERNAL "")
endfunction()

if(RUNG_CUDA STREQUAL "OFF")
  set(cuda_missing "")
elseif(NOT RUNG_NVCC OR NOT EXISTS ${RUNG_NVCC})
  set(cuda_missing "nvcc was not found (CUDA toolkit)")
else()
  rung_cuda_probe()
  set(cuda_missing "${RUNG_CUDA_MISSING}")
  set(cuda_version "${RUNG_CUDA_VERSION}")
  if(cuda_missing STREQUAL "")
    set(cuda_ready TRUE)
    # The static runtime searches for the driver on first use, so that librung also loads on
    # machines without one. nvcc's host code guards its static variables with libstdc++.
    set(cuda_libs ${RUNG_CUDA_RUNTIME} -lstdc++ -ldl -lrt)
  endif()
endif()

# Object files of .cu sources, with hidden names and without exceptions, which must not pass through
# C callers.
function(rung_cuda_objects objects_out)
  rung_cuda_architectures("${CMAKE_CUDA_ARCHITECTURES}" arch_flags)
  set(warn $<$<BOOL:${RUNG_WERROR}>:-Werror=all-warnings>)
  set(objects)
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/kernels/${name}.cu.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${RUNG_NVCC} ${cuda_host_flags} ${arch_flags} -std=c++17 -O3 ${warn}
        -MD -MF ${object}.d -MT ${object}
        -Xcompiler=-fPIC,-fvisibility=hidden,-fno-exceptions,-fno-rtti,-Wall,-Wextra -D_GNU_SOURCE
        -I${CMAKE_SOURCE_DIR}/kernels -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/include
        -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d COMMENT "Compiling ${name}.cu"
      VERBATIM COMMAND_EXPAND_LISTS)
    list(APPEND objects ${object})
  endforeach()
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/kernels)
  set(${objects_out} "${objects}" PARENT_SCOPE)
endfunction()
