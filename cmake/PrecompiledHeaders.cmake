# The standard library's headers are parsed once, not 700 times: a fifth of the time of a build from nothing. Sources include what they use all the same; the
# presets asan, tsan and checked-threads have none of this and would tell.
set(precompiled_default ON)
if(CAMSHAFT_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(precompiled_default OFF)
endif()
option(CAMSHAFT_PRECOMPILED_HEADERS "Precompile the standard library's headers (default: with GCC)" ${precompiled_default})

set(camshaft_precompiled <algorithm> <array> <charconv> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory> <optional> <set> <span> <string> <string_view>
  <unordered_map> <utility> <variant> <vector> <fmt/format.h>)

if(CAMSHAFT_PRECOMPILED_HEADERS)
  if(CCACHE_PROGRAM)  # its documentation: without these it does not cache what was compiled with such a header
    list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros)
    add_compile_options(-fpch-preprocess)
  endif()
  # GCC 12 no longer knows them for system headers when their functions are inlined, and warns of the string class (its bug 105329). The sanitizers look there.
  add_compile_options(-Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
  file(WRITE ${PROJECT_BINARY_DIR}/generated/precompiled.cpp "// What the precompiled headers of all folders are compiled for.\n")
  add_library(camshaft_headers OBJECT ${PROJECT_BINARY_DIR}/generated/precompiled.cpp)
  target_link_libraries(camshaft_headers PRIVATE camshaft_options fmt::fmt)
  target_precompile_headers(camshaft_headers PRIVATE ${camshaft_precompiled})
  if(NOT CAMSHAFT_LIBRARIES_ONLY)
    add_library(camshaft_test_headers OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/generated/precompiled.cpp)
    target_link_libraries(camshaft_test_headers PRIVATE camshaft_options fmt::fmt GTest::gtest)
    # As programs are compiled, not libraries.
    set_target_properties(camshaft_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(camshaft_test_headers PRIVATE -fPIE ${camshaft_sanitized_test_options})
    target_precompile_headers(camshaft_test_headers PRIVATE ${camshaft_precompiled} <gtest/gtest.h>)
  endif()
endif()

# camshaft_precompile(TARGET [header...]): with headers, ones of its own (a target whose options are not those of the others).
function(camshaft_precompile TARGET)
  if(CAMSHAFT_PRECOMPILED_HEADERS AND ARGN)
    target_precompile_headers(${TARGET} PRIVATE ${ARGN})
  elseif(CAMSHAFT_PRECOMPILED_HEADERS)
    target_precompile_headers(${TARGET} REUSE_FROM camshaft_headers)
  endif()
endfunction()

function(camshaft_precompile_test TARGET)
  if(CAMSHAFT_PRECOMPILED_HEADERS)
    target_precompile_headers(${TARGET} REUSE_FROM camshaft_test_headers)
  endif()
endfunction()
