# Neighbouring sources are compiled together: most of a small file's time goes into headers and templates that its neighbours have as well. The 69 files of
# src/passes take 105 s of processor time one by one, 41 s eight at a time, 30 s twenty-four at a time; those of src/cli 51 s eight at a time and 39 to 45 s sixteen
# at a time. That leaves work for four processors; an edit costs 5 s in src/passes, 13 in src/cli, 21 in src/trace (Zen 4). Builds with sanitizers and for debugging
# compile each file alone, as clang-tidy does: a source that lacks an include or uses a neighbour's name shows there. CI's (preset checked) does not: 1,200 s instead
# of 1,650 on two slow processors, with -g1.
set(unity_default OFF)
if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT CAMSHAFT_SANITIZE)
  set(unity_default ON)
endif()
option(CAMSHAFT_UNITY "Compile neighbouring sources together (default: in release builds)" ${unity_default})

# camshaft_unity(TARGET [BATCH_SIZE]): for what has no loop whose speed hangs on what the compiler inlines.
function(camshaft_unity TARGET)
  set(size 16)
  if(ARGC GREATER 1)
    set(size ${ARGV1})
  endif()
  if(CAMSHAFT_UNITY)
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  endif()
endfunction()
