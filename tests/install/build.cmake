# On a bare machine: what README says from the first command to the last, then the programs of programs.cmake.
#
# cmake -DPROJECT=folder -DWORK=folder -DJOBS=count [what programs.cmake takes] -P build.cmake
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} -S ${PROJECT} -B ${WORK}/build --preset install)
run(${CMAKE_COMMAND} --build ${WORK}/build --parallel ${JOBS})
set(BUILD ${WORK}/build)
set(COMPONENTS runtime,development,papyruskv)
set(PREFIXES ${WORK}/prefixes)
set(WORK ${PREFIXES})
include(${CMAKE_CURRENT_LIST_DIR}/install.cmake)
set(WORK ${PREFIXES}/programs)
include(${CMAKE_CURRENT_LIST_DIR}/programs.cmake)
