# ONNX Runtime's execution provider: a library it loads, with nothing of ONNX Runtime in it. It is never unloaded: sessions may outlive its registration.
add_library(camshaft-ep MODULE ${CMAKE_CURRENT_LIST_DIR}/plugin_main.cpp)
target_link_libraries(camshaft-ep PRIVATE camshaft_ep)
target_compile_features(camshaft-ep PRIVATE cxx_std_20)
target_link_options(camshaft-ep PRIVATE LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map LINKER:--gc-sections LINKER:-z,nodelete)
set_target_properties(camshaft-ep PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/exports.map)
