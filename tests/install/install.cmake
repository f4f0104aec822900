# Installs a build twice: as `cmake --install` does it, and with the shared libraries too. Both prefixes are moved
# afterwards, for packages must be relocatable.
#
# cmake -DBUILD=folder -DWORK=folder -DCOMPONENTS=development,runtime -P install.cmake
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
string(REPLACE "," ";" COMPONENTS ${COMPONENTS})
file(REMOVE_RECURSE ${WORK}/staged ${WORK}/static ${WORK}/shared)
foreach(prefix static shared)
  foreach(component IN LISTS COMPONENTS)
    run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/staged/${prefix} --component ${component})
  endforeach()
endforeach()
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/staged/shared --component shared)
foreach(prefix static shared)
  file(RENAME ${WORK}/staged/${prefix} ${WORK}/${prefix})
endforeach()
file(GLOB_RECURSE unasked ${WORK}/static/*/libicecore*.so*)
if(unasked)
  message(FATAL_ERROR "nobody asked for shared libraries, but there is ${unasked}")
endif()
