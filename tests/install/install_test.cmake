# Installs the build into a fresh prefix, moves the prefix (packages must be relocatable), and builds and runs the
# consumer against it: with CMake, and with bare compilers and pkg-config in C++ and in C.
function(run)
  cmake_parse_arguments(PARSE_ARGV 0 run "" "OUTPUT" "COMMAND")
  execute_process(COMMAND ${run_COMMAND} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT result EQUAL 0)
    list(JOIN run_COMMAND " " command)
    message(FATAL_ERROR "${command}\nfailed (${result}):\n${output}")
  endif()
  if(run_OUTPUT)
    set(${run_OUTPUT} "${output}" PARENT_SCOPE)
  endif()
endfunction()

function(run_consumer program)
  file(REMOVE ${WORK}/consumer.ice)
  run(COMMAND ${program} ${WORK}/consumer.ice OUTPUT said)
  if(NOT said STREQUAL "icecore ${VERSION}: before, after")
    message(FATAL_ERROR "${program} said '${said}'")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/staged)
file(RENAME ${WORK}/staged ${WORK}/prefix)

set(flags)
if(SANITIZE)
  set(flags -fsanitize=${SANITIZE})
endif()

run(COMMAND ${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix
            -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${flags})
run(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build)
run_consumer(${WORK}/build/consumer)

set(c_flags ${flags})
if(SANITIZE AND COMPILER MATCHES Clang)  # whose C driver links the sanitizers' C++ half only on demand
  list(APPEND c_flags -fsanitize-link-c++-runtime)
endif()
file(GLOB_RECURSE pc ${WORK}/prefix/*/icecore.pc)
get_filename_component(pc_directory "${pc}" DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${pc_directory})
run(COMMAND pkg-config --cflags --libs icecore OUTPUT line)
separate_arguments(arguments UNIX_COMMAND "${line}")
run(COMMAND pkg-config --variable=libdir icecore OUTPUT library_directory)
list(APPEND arguments -Wl,-rpath,${library_directory})
run(COMMAND ${CXX} -std=c++20 ${flags} ${CONSUMER}/main.cpp ${arguments} -o ${WORK}/in-cpp)
run_consumer(${WORK}/in-cpp)
run(COMMAND ${C} -std=c11 ${c_flags} ${CONSUMER}/main.c ${arguments} -o ${WORK}/in-c)
run_consumer(${WORK}/in-c)
