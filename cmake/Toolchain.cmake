set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# No -march: one source per kernel is compiled per instruction set (src/kernels/CMakeLists.txt), all else runs on any x86-64.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# GCC collects garbage from 128 MiB on; from 512 MiB on it takes 5 to 15 % less time, and up to 1 GiB a source instead of 0.7.
add_compile_options($<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>)

set(CAMSHAFT_SANITIZE "" CACHE STRING "Sanitizers to build with, e.g. address,undefined or thread")
# Other compilers warn of other things: those must not stop somebody who only wants to build.
set(werror_default OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(werror_default ON)
endif()
option(CAMSHAFT_WERROR "Treat warnings as errors (default: with GCC 12, which continuous integration has)" ${werror_default})

add_library(camshaft_options INTERFACE)
target_compile_options(camshaft_options INTERFACE -Wall -Wextra $<$<BOOL:${CAMSHAFT_WERROR}>:-Werror>)
target_include_directories(camshaft_options INTERFACE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated)
if(CAMSHAFT_SANITIZE)
  # Assertions stay on: what is slow anyway checks all there is. -g1 names functions and lines.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
  # What is tested counts, not the tests: a third of the time to compile.
  set(camshaft_sanitized_test_options -O0 -fno-sanitize=undefined)
  # Instrumented code of the standard library's own headers looks uninitialized to GCC 12.
  add_compile_options(-fsanitize=${CAMSHAFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-error=maybe-uninitialized>)
  # Accesses checked by calls take less to compile (a unit of src/passes 25 → 22 s).
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:--param=asan-instrumentation-with-call-threshold=0>)
  add_link_options(-fsanitize=${CAMSHAFT_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()
