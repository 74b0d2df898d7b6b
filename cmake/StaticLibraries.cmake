# camshaft-static.cmake in the build folder: the static libraries of this build as targets, for python/ (make wheel).
set(libraries camshaft_options camshaft_onnx_schema)
foreach(name base ir kernels onnx passes engine runtime tuner inspect quantize archive trace server api ep cli)
  list(APPEND libraries camshaft_${name})
endforeach()
export(TARGETS ${libraries} FILE ${PROJECT_BINARY_DIR}/camshaft-static.cmake)
