# Neighbouring sources are compiled together: most of a small file's time goes into headers and templates that its neighbours have as well. The 69 files of
# src/passes take 105 s of processor time one by one, 41 s eight at a time, 30 s twenty-four at a time; those of src/cli 51 s eight at a time and 39 to 45 s sixteen
# at a time (Zen 4). In even batches of at most twenty-four src/passes take 0.87 of the time of batches of sixteen and a rest, src/ir 0.84, src/cli 0.93; src/trace,
# of templates for the most part, 1.17 (Zen 3). That leaves work for four processors. Builds with sanitizers and for debugging compile each file alone, as clang-tidy
# does where the build does: a source that lacks an include or uses a neighbour's name shows there. CI's (preset checked) does not: 1,200 s instead of 1,650 on two
# slow processors, with -g1.
set(unity_default OFF)
if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT CAMSHAFT_SANITIZE)
  set(unity_default ON)
endif()
option(CAMSHAFT_UNITY "Compile neighbouring sources together (default: in release builds)" ${unity_default})

# camshaft_unity(TARGET [MOST]): for what has no loop whose speed hangs on what the compiler inlines. Batches are of one size, at most MOST (24).
function(camshaft_unity TARGET)
  set(most 24)
  if(ARGC GREATER 1)
    set(most ${ARGV1})
  endif()
  if(CAMSHAFT_UNITY)
    get_target_property(sources ${TARGET} SOURCES)
    list(LENGTH sources count)
    math(EXPR batches "(${count} + ${most} - 1) / ${most}")
    math(EXPR size "(${count} + ${batches} - 1) / ${batches}")
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  endif()
endfunction()
