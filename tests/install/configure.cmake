# On a bare machine, where ./demo may have run and nothing else: what README says works, and what cannot work says why.
#
# cmake -DPROJECT=folder -DWORK=folder -DMPI=ON|OFF -P configure.cmake
file(REMOVE_RECURSE ${WORK})
# configure(expected-result expected-text preset...)
function(configure result text preset)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${PROJECT} -B ${WORK}/${preset} --preset ${preset} ${ARGN}
                  RESULT_VARIABLE did OUTPUT_VARIABLE said ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")  # CMake breaks its lines
  if(NOT did EQUAL result OR NOT said MATCHES "${text}")
    message(FATAL_ERROR "--preset ${preset} ${ARGN} ended with ${did} (not ${result}), or does not say '${text}':\n${said}")
  endif()
  file(REMOVE_RECURSE ${WORK}/${preset})
endfunction()

set(mpi "Could NOT find MPI")
if(MPI)
  set(mpi "Found MPI")
endif()
configure(0 "${mpi}" install)
configure(1 "scripts/install-dependencies test" release)
# A program may bring the library of Berkeley DB, which is not its development package.
configure(0 "libdb5.3-dev is not installed" release -DICECORE_BUILD_TESTS=OFF)
