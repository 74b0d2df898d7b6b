# camshaft-static.cmake in the build folder: the static libraries of this build as targets, for python/ (make wheel).
set(libraries camshaft_options camshaft_onnx_schema)
foreach(name base ir batching kernels onnx passes engine runtime tuner inspect quantize archive trace server api ep cli)
  list(APPEND libraries camshaft_${name})
endforeach()
if(CAMSHAFT_GRPC)
  list(APPEND libraries camshaft_protocol camshaft_serve camshaft_grpc_service camshaft_grpc)
endif()
export(TARGETS ${libraries} FILE ${PROJECT_BINARY_DIR}/camshaft-static.cmake)
