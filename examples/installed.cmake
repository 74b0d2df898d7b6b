# The examples over an installed Camshaft: cmake -S . -B build -DCMAKE_PREFIX_PATH=PREFIX && cmake --build build
cmake_minimum_required(VERSION 3.22)
project(camshaft_examples C CXX)
find_package(camshaft REQUIRED)

add_executable(run_cpp run_cpp.cpp)
add_executable(run_c run_c.c)
foreach(program run_cpp run_c)
  target_link_libraries(${program} PRIVATE camshaft::camshaft)
endforeach()

# The demo reads and writes pictures with stb (Debian: libstb-dev).
find_path(STB_INCLUDE_DIR stb_image.h PATH_SUFFIXES stb)
if(STB_INCLUDE_DIR)
  add_executable(yolox_demo yolox_demo.cpp)
  target_include_directories(yolox_demo SYSTEM PRIVATE ${STB_INCLUDE_DIR})
  target_link_libraries(yolox_demo PRIVATE camshaft::camshaft)
endif()
