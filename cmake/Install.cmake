# make install PREFIX=: programs, headers, the two libraries, a CMake package and pkg-config files.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS camshaft camshaft-rt EXPORT camshaftTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS camshaft_camshaft_program camshaft_camexec_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
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

# pkg-config finds its files by their own place, so that the tree can be moved.
file(RELATIVE_PATH pc_up /root/${CMAKE_INSTALL_LIBDIR}/pkgconfig /root)
foreach(library camshaft camshaft-rt)
  set(pc_name ${library})
  set(pc_description "builds and runs inference engines from ONNX networks")
  if(library STREQUAL "camshaft-rt")
    set(pc_description "loads and runs Camshaft engines")
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/camshaft.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
