# Makes the Debian packages libicecore-dev and libskv, unpacks them, and builds and runs a program with what is in each.
#
# cmake -DBUILD=folder -DWORK=folder -DCPACK=cpack -DVERSION=0.1.0 -DC=compiler -DWITH_SERVER=program
#       -DSKV_PROGRAMS=folder -P packages.cmake
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CPACK} -G DEB --config ${BUILD}/CPackConfig.cmake -B ${WORK} -D CPACK_INSTALL_PREFIX=/usr
    -D "CPACK_COMPONENTS_ALL=development\;skv" -D CPACK_PACKAGE_DIRECTORY=${WORK})

# unpack(name depends-on file...): the package has these files, and names what it needs; its files are in WORK/name.
function(unpack name depends)
  file(GLOB package ${WORK}/${name}_${VERSION}*.deb)
  run(dpkg-deb --field "${package}" Depends)
  if(NOT said MATCHES "${depends}")
    message(FATAL_ERROR "${name} depends on '${said}', which has no '${depends}'")
  endif()
  run(dpkg-deb --extract ${package} ${WORK}/${name})
  foreach(file IN LISTS ARGN)
    file(GLOB found ${WORK}/${name}/usr/${file})
    if(NOT found)
      message(FATAL_ERROR "${name} has no ${file}")
    endif()
  endforeach()
endfunction()

unpack(libicecore-dev "libfmt-dev.*libucx-dev" include/icecore/icecore.hpp include/icecore/remote.hpp
       include/icecore/icecore_remote.h lib*/libicecore.a lib*/libicecore_remote.a lib*/pkgconfig/icecore-remote.pc
       lib*/cmake/icecore/icecore-config.cmake)
file(GLOB_RECURSE more ${WORK}/libicecore-dev/*.so* ${WORK}/libicecore-dev/*skv*)
if(more)
  message(FATAL_ERROR "libicecore-dev has ${more}, too")
endif()
unpack(libskv "libucx0|libucs" include/skv/c/skv.h include/skv/client/skv_client.hpp lib*/libskv.so lib*/libskv.so.*
       lib*/pkgconfig/skv.pc)

# with_package(name package source expected): a program in C, built by pkg-config alone, and what it says beside a server.
function(with_package name package source expected)
  file(GLOB_RECURSE pc ${WORK}/${name}/*/${package}.pc)
  cmake_path(GET pc PARENT_PATH folder)
  set(ENV{PKG_CONFIG_PATH} ${folder})
  run(pkg-config --static --cflags --libs ${package})
  separate_arguments(arguments UNIX_COMMAND "${said}")
  run(pkg-config --variable=libdir ${package})
  run(${C} -std=gnu11 ${source} ${arguments} -Wl,-rpath,${said} -o ${WORK}/program)
  run(${WITH_SERVER} ${WORK}/program)
  if(NOT said MATCHES "${expected}")
    message(FATAL_ERROR "${source} said '${said}'")
  endif()
endfunction()
with_package(libicecore-dev icecore-remote ${CMAKE_CURRENT_LIST_DIR}/consumer/remote.c "before, after$")
with_package(libskv skv ${SKV_PROGRAMS}/program.c "")
file(REMOVE_RECURSE ${WORK})
