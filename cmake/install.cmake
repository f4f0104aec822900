# What `cmake --install` puts where: library, headers, CMake package and pkg-config file, all relocatable.
include(CMakePackageConfigHelpers)

# Our own warning and sanitizer flags are for building icecore, not for those who use it.
if(NOT BUILD_SHARED_LIBS)
  get_target_property(icecore_links icecore INTERFACE_LINK_LIBRARIES)
  string(REPLACE "$<LINK_ONLY:icecore_build_flags>" "$<BUILD_INTERFACE:$<LINK_ONLY:icecore_build_flags>>" icecore_links
         "${icecore_links}")
  set_target_properties(icecore PROPERTIES INTERFACE_LINK_LIBRARIES "${icecore_links}")
endif()

install(TARGETS icecore EXPORT icecore-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
set(icecore_left_out)
if(NOT ICECORE_HAS_MPI)  # the headers that need it
  set(icecore_left_out PATTERN cluster.hpp EXCLUDE PATTERN icecore_mpi.h EXCLUDE)
endif()
install(DIRECTORY include/icecore DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development ${icecore_left_out})

# Clusters are a component: who asks for it needs the same MPI.
if(ICECORE_HAS_MPI)
  get_target_property(icecore_links icecore_mpi INTERFACE_LINK_LIBRARIES)
  string(REPLACE "$<LINK_ONLY:icecore_build_flags>" "$<BUILD_INTERFACE:$<LINK_ONLY:icecore_build_flags>>" icecore_links
         "${icecore_links}")
  set_target_properties(icecore_mpi PROPERTIES INTERFACE_LINK_LIBRARIES "${icecore_links}")
  install(TARGETS icecore_mpi EXPORT icecore-mpi-targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT icecore-mpi-targets NAMESPACE icecore:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/icecore
          COMPONENT development)
endif()

# PapyrusKV's interface is another, of which one shared library is all a program needs.
if(TARGET papyruskv)
  set_target_properties(papyruskv PROPERTIES INSTALL_RPATH $ORIGIN)
  install(TARGETS papyruskv EXPORT icecore-papyruskv-targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT papyruskv)
  install(DIRECTORY include/papyrus DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT papyruskv)
  install(EXPORT icecore-papyruskv-targets NAMESPACE icecore:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/icecore
          COMPONENT papyruskv)
  if(ICECORE_HAS_FORTRAN)
    get_target_property(papyruskv_modules papyruskv_fortran Fortran_MODULE_DIRECTORY)
    install(FILES ${papyruskv_modules}/papyrus.mod DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT papyruskv)
  endif()
endif()

set(icecore_package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/icecore)
install(EXPORT icecore-targets NAMESPACE icecore:: DESTINATION ${icecore_package_directory} COMPONENT development)
configure_package_config_file(cmake/icecore-config.cmake.in ${PROJECT_BINARY_DIR}/package/icecore-config.cmake
                              INSTALL_DESTINATION ${icecore_package_directory}
                              NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/icecore-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/icecore-config.cmake
              ${PROJECT_BINARY_DIR}/package/icecore-config-version.cmake
        DESTINATION ${icecore_package_directory} COMPONENT development)

# A static library leaves its own libraries to whoever links it; a shared one brings them along.
if(BUILD_SHARED_LIBS)
  set(icecore_pc_private .private)
endif()
if(ICECORE_HAS_NUMA)
  set(icecore_pc_numa " numa")
endif()
set(icecore_pc_directory ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH icecore_pc_to_prefix /prefix/${icecore_pc_directory} /prefix)
configure_file(cmake/icecore.pc.in ${PROJECT_BINARY_DIR}/package/icecore.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/icecore.pc DESTINATION ${icecore_pc_directory} COMPONENT development)
if(TARGET papyruskv)
  configure_file(cmake/papyruskv.pc.in ${PROJECT_BINARY_DIR}/package/papyruskv.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/papyruskv.pc DESTINATION ${icecore_pc_directory} COMPONENT papyruskv)
endif()
