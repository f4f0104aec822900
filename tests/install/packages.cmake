# Makes the Debian packages libicecore-dev, libskv, icecore and icecore-server and unpacks them. Builds and runs a program with
# what is in each of the first two, and runs the programs of the others. Their packages stay in WORK, for other tests.
#
# cmake -DBUILD=folder -DWORK=folder -DCPACK=cpack -DVERSION=0.1.0 -DC=compiler -DWITH_SERVER=program
#       -DSKV_PROGRAMS=folder -P packages.cmake
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CPACK} -G DEB --config ${BUILD}/CPackConfig.cmake -B ${WORK}/made
    -D "CPACK_COMPONENTS_ALL=development\;skv\;runtime\;server" -D CPACK_PACKAGE_DIRECTORY=${WORK})

# expect_size(name kibibytes): the files of WORK/name, and one for each folder and link. A link to a library is no second one.
function(expect_size name kibibytes)
  set(expected 1)  # the root
  file(GLOB_RECURSE found LIST_DIRECTORIES ON ${WORK}/${name}/*)
  foreach(path IN LISTS found)
    set(bytes 1)
    if(NOT IS_SYMLINK ${path} AND NOT IS_DIRECTORY ${path})
      file(SIZE ${path} bytes)
    endif()
    math(EXPR expected "${expected} + (${bytes} + 1023) / 1024")
  endforeach()
  if(NOT kibibytes EQUAL expected)
    message(FATAL_ERROR "${name} claims an Installed-Size of ${kibibytes}, and has ${expected}")
  endif()
endfunction()

# unpack(name depends-on file...): the package has these files, and names what it needs (left in `dependencies`); its files
# are in WORK/name.
function(unpack name depends)
  file(GLOB package ${WORK}/${name}_${VERSION}*.deb)
  run(dpkg-deb --field "${package}" Depends)
  if(NOT said MATCHES "${depends}")
    message(FATAL_ERROR "${name} depends on '${said}', which has no '${depends}'")
  endif()
  set(dependencies "${said}" PARENT_SCOPE)
  run(dpkg-deb --extract ${package} ${WORK}/${name})
  run(dpkg-deb --field "${package}" Installed-Size)
  expect_size(${name} ${said})
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

# The server's package: whole, for /usr and /etc, with its configuration as a file that its administrator may change, and
# with scripts that a shell understands.
unpack(icecore "libc6.*libgit2" bin/icecore share/man/man1/icecore.1.gz share/man/man1/icecore-put.1.gz
       share/bash-completion/completions/icecore share/zsh/vendor-completions/_icecore share/fish/vendor_completions.d/icecore.fish
       share/doc/icecore/copyright share/doc/icecore/changelog.gz)
unpack(icecore-server "libc6.*libgrpc[+][+].*libprometheus-cpp-core.*libssl3.*libsystemd0.*libucx0" bin/icecore-server
       lib/systemd/system/icecore-server.service share/man/man8/icecore-server.8.gz
       share/doc/icecore-server/copyright share/doc/icecore-server/changelog.gz
       share/doc/icecore-server/examples/prometheus-alerts.yaml)
if(dependencies MATCHES "-dev")
  message(FATAL_ERROR "icecore-server depends on what only builds need: '${dependencies}'")
endif()
set(root ${WORK}/icecore-server)
file(GLOB package ${WORK}/icecore-server_${VERSION}*.deb)
run(dpkg-deb --control ${package} ${WORK}/control)
file(STRINGS ${WORK}/control/conffiles changeable)
if(NOT changeable STREQUAL "/etc/icecore/icecore.toml" OR NOT EXISTS ${root}/etc/icecore/icecore.toml)
  message(FATAL_ERROR "icecore-server's conffiles are '${changeable}'")
endif()
foreach(script postinst prerm postrm)
  run(sh -n ${WORK}/control/${script})
  run(test -x ${WORK}/control/${script})
endforeach()
run(stat --format=%a ${root}/etc/icecore/credentials)
if(NOT said STREQUAL "700")
  message(FATAL_ERROR "the folder of secrets has the mode ${said}")
endif()
file(STRINGS ${root}/usr/lib/systemd/system/icecore-server.service names REGEX "^(ExecStart|LoadCredential)=")
if(NOT names STREQUAL "ExecStart=/usr/bin/icecore-server --configuration /etc/icecore/icecore.toml;LoadCredential=icecore:/etc/icecore/credentials")
  message(FATAL_ERROR "the unit says '${names}'")
endif()
run(${root}/usr/bin/icecore-server --configuration ${root}/etc/icecore/icecore.toml --check)
if(EXISTS ${root}/usr/bin/icecore)
  message(FATAL_ERROR "icecore-server has a file of the package icecore, and both cannot be installed")
endif()
run(${WORK}/icecore/usr/bin/icecore put ${WORK}/store.ice key value)
run(${WORK}/icecore/usr/bin/icecore verify ${WORK}/store.ice)

file(GLOB left LIST_DIRECTORIES ON ${WORK}/*)
file(GLOB command_package ${WORK}/icecore_${VERSION}*.deb)
list(REMOVE_ITEM left ${package} ${command_package})
file(REMOVE_RECURSE ${left})
