# What `cmake --install` puts where: libraries, headers, CMake package and pkg-config files, all relocatable.
include(CMakePackageConfigHelpers)
set(icecore_package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/icecore)
set(icecore_pc_directory ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Static libraries need nothing to start with, so they are what is installed. The shared ones, of the same object files,
# are a component that must be asked for, but where BUILD_SHARED_LIBS is on.
set(icecore_on_demand EXCLUDE_FROM_ALL)
if(BUILD_SHARED_LIBS)
  set(icecore_on_demand)
endif()
# Where components are split, those of MPI and each shared library are by themselves, and the link by which compilers find a
# shared library is with what else programs are built with.
set(icecore_mpi_development development)
set(icecore_mpi_shared shared)
set(icecore_remote_shared shared)
set(icecore_links shared)
set(icecore_mpi_links shared)
set(icecore_library_rpath $ORIGIN)
if(ICECORE_SPLIT_COMPONENTS)
  set(icecore_mpi_development mpi_development)
  set(icecore_mpi_shared mpi_shared)
  set(icecore_remote_shared remote_shared)
  set(icecore_links development)
  set(icecore_mpi_links mpi_development)
  set(icecore_library_rpath)
endif()

# icecore_install(target exported-as package component links...): one library and its CMake target. `links` is the component
# of the target and of the link by which compilers find a shared library.
function(icecore_install target exported package component links)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${exported})
  install(TARGETS ${target} EXPORT ${package}-targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} NAMELINK_COMPONENT ${links} ${ARGN}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} ${ARGN})
  install(EXPORT ${package}-targets NAMESPACE icecore:: DESTINATION ${icecore_package_directory} COMPONENT ${links}
          ${ARGN})
endfunction()

icecore_install(icecore static icecore development development)
if(TARGET icecore_shared)
  icecore_install(icecore_shared shared icecore-shared shared ${icecore_links} ${icecore_on_demand})
endif()
set(icecore_left_out)
if(NOT ICECORE_HAS_MPI OR ICECORE_SPLIT_COMPONENTS)  # the headers that need it
  set(icecore_left_out PATTERN cluster*.hpp EXCLUDE PATTERN icecore_mpi.h EXCLUDE)
endif()
if(NOT ICECORE_HAS_UCX)
  list(APPEND icecore_left_out PATTERN remote.hpp EXCLUDE PATTERN icecore_remote.h EXCLUDE)
endif()
install(DIRECTORY include/icecore DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development ${icecore_left_out})

# The modules of Fortran are those of this compiler: others need the sources.
if(TARGET icecore_fortran)
  icecore_install(icecore_fortran fortran icecore-fortran development development)
  get_target_property(icecore_modules icecore_fortran Fortran_MODULE_DIRECTORY)
  install(DIRECTORY ${icecore_modules}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/icecore/modules COMPONENT development
          FILES_MATCHING PATTERN *.mod)
  install(DIRECTORY bindings/fortran DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/icecore COMPONENT development
          FILES_MATCHING PATTERN *.f90)
endif()

# Clusters are a component: who asks for it needs the same MPI.
if(ICECORE_HAS_MPI)
  icecore_install(icecore_mpi mpi_static icecore-mpi ${icecore_mpi_development} ${icecore_mpi_development})
  if(ICECORE_SPLIT_COMPONENTS)
    install(DIRECTORY include/icecore DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT mpi_development
            FILES_MATCHING PATTERN cluster*.hpp PATTERN icecore_mpi.h)
  endif()
  if(TARGET icecore_mpi_shared)
    icecore_install(icecore_mpi_shared mpi_shared icecore-mpi-shared ${icecore_mpi_shared} ${icecore_mpi_links} ${icecore_on_demand})
    set_target_properties(icecore_mpi_shared PROPERTIES INSTALL_RPATH "${icecore_library_rpath}")
  endif()
endif()

# Clients of a server are a component: who asks for it needs UCX.
if(ICECORE_HAS_UCX)
  icecore_install(icecore_remote remote_static icecore-remote development development)
  if(TARGET icecore_remote_shared)
    icecore_install(icecore_remote_shared remote_shared icecore-remote-shared ${icecore_remote_shared} ${icecore_links} ${icecore_on_demand})
    set_target_properties(icecore_remote_shared PROPERTIES INSTALL_RPATH "${icecore_library_rpath}")
  endif()
endif()

# Of SKV's interface one shared library is all a program needs; it is found by a package of its own, so that nothing else
# has to be installed.
if(TARGET skv)
  set(skv_package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/skv)
  install(TARGETS skv EXPORT skv-config LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT skv)
  install(DIRECTORY include/skv DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT skv)
  install(EXPORT skv-config NAMESPACE icecore:: DESTINATION ${skv_package_directory} COMPONENT skv)
endif()

# PapyrusKV's interface is another such library.
if(TARGET papyruskv)
  set_target_properties(papyruskv PROPERTIES INSTALL_RPATH "${icecore_library_rpath}")
  install(TARGETS papyruskv EXPORT icecore-papyruskv-targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT papyruskv)
  install(DIRECTORY include/papyrus DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT papyruskv)
  install(EXPORT icecore-papyruskv-targets NAMESPACE icecore:: DESTINATION ${icecore_package_directory}
          COMPONENT papyruskv)
  if(ICECORE_HAS_FORTRAN)
    get_target_property(papyruskv_modules papyruskv_fortran Fortran_MODULE_DIRECTORY)
    install(FILES ${papyruskv_modules}/papyrus.mod DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT papyruskv)
  endif()
endif()

# The library of C++ that programs of other languages link beside a static icecore: the one it was compiled for.
set(icecore_cxx_library stdc++)
if("c++" IN_LIST CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
  set(icecore_cxx_library c++)
endif()
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
set(icecore_pc_private)
if(BUILD_SHARED_LIBS)
  set(icecore_pc_private .private)
endif()
set(icecore_pc_optional)
foreach(optional NUMA RE2 SIMDJSON)
  if(ICECORE_HAS_${optional})
    string(TOLOWER ${optional} package)
    string(APPEND icecore_pc_optional " ${package}")
  endif()
endforeach()
file(RELATIVE_PATH icecore_pc_to_prefix /prefix/${icecore_pc_directory} /prefix)
# icecore_pc(name component)
function(icecore_pc name component)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/package/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/${name}.pc DESTINATION ${icecore_pc_directory} COMPONENT ${component})
endfunction()
icecore_pc(icecore development)
if(TARGET icecore_fortran)
  icecore_pc(icecore-fortran development)
endif()
if(ICECORE_HAS_MPI)
  icecore_pc(icecore-mpi ${icecore_mpi_development})
endif()
if(ICECORE_HAS_UCX)
  icecore_pc(icecore-remote development)
endif()
foreach(library papyruskv skv)
  if(TARGET ${library})
    icecore_pc(${library} ${library})
  endif()
endforeach()
