# make install PREFIX=: programs, headers, the two libraries, a CMake package and pkg-config files.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS camshaft camshaft-rt EXPORT camshaftTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS camshaft_camshaft_program camshaft_camexec_program camshaft_serve_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/camshaft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/generated/camshaft/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/camshaft)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# find_package(camshaft) gives camshaft::camshaft (build and run) and camshaft::camshaft-rt (run).
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/camshaft)
install(EXPORT camshaftTargets NAMESPACE camshaft:: DESTINATION ${package_dir})
file(WRITE ${PROJECT_BINARY_DIR}/camshaftConfig.cmake
  "include(\${CMAKE_CURRENT_LIST_DIR}/camshaftTargets.cmake)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/camshaftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/camshaftConfig.cmake ${PROJECT_BINARY_DIR}/camshaftConfigVersion.cmake
  DESTINATION ${package_dir})

# What explains them, and the example programs with a build of their own.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/examples/run_c.c ${PROJECT_SOURCE_DIR}/examples/run_cpp.cpp
  ${PROJECT_SOURCE_DIR}/examples/yolox_demo.cpp DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES ${PROJECT_SOURCE_DIR}/examples/installed.cmake DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples RENAME CMakeLists.txt)

# pkg-config finds its files by their own place, so that the tree can be moved. camshaft and camshaft-rt carry the C++
# standard their headers need; camshaft-c and camshaft-rt-c are for programs in C, which that flag would disturb.
file(RELATIVE_PATH pc_up /root/${CMAKE_INSTALL_LIBDIR}/pkgconfig /root)
set(pc_about_camshaft "builds and runs inference engines from ONNX networks")
set(pc_about_camshaft-rt "loads and runs Camshaft engines")
foreach(library camshaft camshaft-rt)
  foreach(language "" "-c")
    set(pc_library ${library})
    set(pc_name ${library}${language})
    set(pc_description "${pc_about_${library}}")
    set(pc_standard " -std=c++20")
    if(language)
      set(pc_description "${pc_about_${library}}, from C")
      set(pc_standard "")
    endif()
    configure_file(${PROJECT_SOURCE_DIR}/cmake/camshaft.pc.in ${PROJECT_BINARY_DIR}/${pc_name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${pc_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  endforeach()
endforeach()
