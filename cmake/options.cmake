# Build options, the flags every target of ours is built with, and the libraries we stand on.
option(ICECORE_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})
option(ICECORE_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(ICECORE_BUILD_BENCHMARKS "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(ICECORE_UNITY "Compile up to eight files of the library and of the tools as one" ON)
option(ICECORE_PRECOMPILED_HEADERS "Compile headers that nearly every file includes once, for a build without a compiler cache" OFF)
option(BUILD_SHARED_LIBS "Link and install the shared libraries, too; the static ones alone if off" OFF)
option(ICECORE_COMMAND "The Python package has the command icecore, too, if what that needs is there" ON)
option(ICECORE_SPLIT_COMPONENTS "Install components as distributions split their packages (scripts/debian-packages); needs BUILD_SHARED_LIBS" OFF)
if(ICECORE_SPLIT_COMPONENTS AND NOT BUILD_SHARED_LIBS)
  message(FATAL_ERROR "ICECORE_SPLIT_COMPONENTS is ON and BUILD_SHARED_LIBS is OFF: set both to ON")
endif()
set(ICECORE_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
option(ICECORE_FUZZERS "Build the fuzzers (clang only; target fuzzers)" OFF)
option(ICECORE_COVERAGE "Count which branches of the library the C++ tests take (clang only; scripts/coverage reports)" OFF)
set(ICECORE_PYTHON "" CACHE FILEPATH
    "Python interpreter with the icecore package (scripts/python-environment makes one); empty: its tests are left out")

set(ICECORE_MPI "AUTO" CACHE STRING "Build icecore::mpi, clusters over MPI ranks: AUTO (if there is an MPI), ON or OFF")
set_property(CACHE ICECORE_MPI PROPERTY STRINGS AUTO ON OFF)

include(GNUInstallDirs)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()
# The baseline instruction set of the platform: faster paths (CRC32C, cache-line write-back) are chosen at run time, so
# that one binary or wheel runs on every machine of its kind.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(ICECORE_BUILD_TESTS)
  enable_testing()
endif()

add_library(icecore_build_flags INTERFACE)
target_compile_options(icecore_build_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                       $<$<BOOL:${ICECORE_WERROR}>:-Werror>)
if(ICECORE_SANITIZE)
  target_compile_options(icecore_build_flags INTERFACE -fsanitize=${ICECORE_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(icecore_build_flags INTERFACE -fsanitize=${ICECORE_SANITIZE})
endif()
if(ICECORE_SANITIZE MATCHES address)
  # A use of a null pointer ends in a report of AddressSanitizer anyway: the page has no memory; so does one beyond an
  # object. To check each pointer for both as well is a third of what the compiler does.
  target_compile_options(icecore_build_flags INTERFACE -fno-sanitize=null,object-size)
endif()
if(ICECORE_SANITIZE MATCHES thread)
  # GCC warns of fences, from which ThreadSanitizer learns no happens-before. Ours order stores before loads and publish
  # nothing, so it has nothing to learn from them.
  target_compile_options(icecore_build_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
endif()
if(ICECORE_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # What is inlined is instrumented again in each place: a third of the rest.
  target_compile_options(icecore_build_flags INTERFACE "SHELL:-mllvm -inline-threshold=20")
endif()
# What fuzzers watch: the library and the parser of dumps. Coverage of the tests' own code would lead nowhere.
add_library(icecore_watched_flags INTERFACE)
if(ICECORE_FUZZERS)
  target_compile_options(icecore_watched_flags INTERFACE -fsanitize=fuzzer-no-link
                         -fno-sanitize-coverage=trace-cmp,trace-div,trace-gep)
endif()
if(ICECORE_COVERAGE)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "ICECORE_COVERAGE needs clang, and the compiler is ${CMAKE_CXX_COMPILER_ID}: use -DCMAKE_CXX_COMPILER=clang++-16")
  endif()
  # Programs that nobody asked for a profile write none: tests name their file in LLVM_PROFILE_FILE.
  set(icecore_profile -fprofile-instr-generate=/dev/null)
  target_compile_options(icecore_build_flags INTERFACE ${icecore_profile} -fcoverage-mapping
                         -fprofile-list=${PROJECT_SOURCE_DIR}/cmake/coverage.list)
  target_link_options(icecore_build_flags INTERFACE ${icecore_profile})
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(pmem2 REQUIRED IMPORTED_TARGET libpmem2)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(libzstd REQUIRED IMPORTED_TARGET GLOBAL libzstd)

set(ICECORE_NUMA "AUTO" CACHE STRING "Put files of a store into the memory of NUMA nodes by libnuma: AUTO (if it is there), ON or OFF")
set_property(CACHE ICECORE_NUMA PROPERTY STRINGS AUTO ON OFF)
set(ICECORE_HAS_NUMA OFF)
if(NOT ICECORE_NUMA STREQUAL "OFF")
  pkg_check_modules(numa IMPORTED_TARGET numa)
  set(ICECORE_HAS_NUMA ${numa_FOUND})
  if(NOT numa_FOUND AND NOT ICECORE_NUMA STREQUAL "AUTO")
    message(FATAL_ERROR "ICECORE_NUMA is ${ICECORE_NUMA}, but libnuma was not found; scripts/install-dependencies installs it")
  endif()
endif()

# Hashes: a header is all that is needed.
find_path(ICECORE_XXHASH_INCLUDE xxhash.h REQUIRED)
mark_as_advanced(ICECORE_XXHASH_INCLUDE)

# icecore_optional(NAME package purpose): the option ICECORE_NAME, and ICECORE_HAS_NAME and PkgConfig::package if it is there.
function(icecore_optional name package purpose)
  set(ICECORE_${name} "AUTO" CACHE STRING "${purpose}: AUTO (if it is there), ON or OFF")
  set_property(CACHE ICECORE_${name} PROPERTY STRINGS AUTO ON OFF)
  set(found OFF)
  if(NOT ICECORE_${name} STREQUAL "OFF")
    pkg_check_modules(${package} IMPORTED_TARGET GLOBAL ${package})
    set(found ${${package}_FOUND})
    if(found)  # no other file is compiled with -pthread, and headers that are compiled once must be compiled alike
      get_target_property(flags PkgConfig::${package} INTERFACE_COMPILE_OPTIONS)
      list(REMOVE_ITEM flags -pthread flags-NOTFOUND)
      set_target_properties(PkgConfig::${package} PROPERTIES INTERFACE_COMPILE_OPTIONS "${flags}")
    endif()
    if(NOT found AND NOT ICECORE_${name} STREQUAL "AUTO")
      message(FATAL_ERROR "ICECORE_${name} is ${ICECORE_${name}}, but ${package} was not found; scripts/install-dependencies installs it")
    endif()
  endif()
  set(ICECORE_HAS_${name} ${found} PARENT_SCOPE)
endfunction()
icecore_optional(RE2 re2 "Patterns in filters ('~') by RE2")
icecore_optional(SIMDJSON simdjson "JSON in filters by simdjson")

# The service: clients over UCX need UCX alone, the server all of these.
icecore_optional(UCX ucx "Frames of jobs by UCX")
icecore_optional(SYSTEMD libsystemd "Notices to systemd by libsystemd")
set(ICECORE_SERVER "AUTO" CACHE STRING "Build icecore-server: AUTO (if what it needs is there), ON or OFF")
set_property(CACHE ICECORE_SERVER PROPERTY STRINGS AUTO ON OFF)
set(ICECORE_HAS_SERVER OFF)
if(NOT ICECORE_SERVER STREQUAL "OFF" AND NOT SKBUILD)
  find_package(Protobuf QUIET)
  if(NOT TARGET re2::re2)  # Debian's gRPC names it, and nothing of Debian defines it; gRPC's shared library brings it along
    add_library(re2::re2 INTERFACE IMPORTED)
  endif()
  find_package(gRPC CONFIG QUIET)
  find_package(OpenSSL 3 QUIET)
  find_package(Boost 1.74 QUIET)
  find_package(prometheus-cpp CONFIG QUIET COMPONENTS core)
  find_package(toml11 CONFIG QUIET)
  find_package(ZLIB QUIET)
  find_package(nlohmann_json 3.10 QUIET)
  set(ICECORE_HAS_SERVER ON)
  foreach(part Protobuf gRPC OpenSSL Boost prometheus-cpp toml11 nlohmann_json)
    if(NOT ${part}_FOUND)
      set(ICECORE_HAS_SERVER OFF)
      if(NOT ICECORE_SERVER STREQUAL "AUTO")
        message(FATAL_ERROR "ICECORE_SERVER is ${ICECORE_SERVER}, but ${part} was not found; scripts/install-dependencies server installs it")
      endif()
    endif()
  endforeach()
endif()

set(ICECORE_HAS_MPI OFF)
if(SKBUILD AND ICECORE_MPI STREQUAL "AUTO")  # a wheel that needs an MPI is one that somebody asked for
  set(ICECORE_MPI OFF)
endif()
if(NOT ICECORE_MPI STREQUAL "OFF")
  find_package(MPI COMPONENTS C)
  set(ICECORE_HAS_MPI ${MPI_C_FOUND})
  if(NOT MPI_C_FOUND AND NOT ICECORE_MPI STREQUAL "AUTO")
    message(FATAL_ERROR "ICECORE_MPI is ${ICECORE_MPI}, but no MPI was found; scripts/install-dependencies mpi installs two")
  endif()
endif()

# Modules for Fortran, where there is a compiler. Not with sanitizers: they do not instrument Fortran, and gfortran does not
# find lld.
set(ICECORE_FORTRAN "AUTO" CACHE STRING "Build the modules for Fortran: AUTO (if there is a compiler), ON or OFF")
set_property(CACHE ICECORE_FORTRAN PROPERTY STRINGS AUTO ON OFF)
set(ICECORE_HAS_FORTRAN OFF)
if(NOT ICECORE_FORTRAN STREQUAL "OFF" AND NOT ICECORE_SANITIZE AND NOT SKBUILD)
  include(CheckLanguage)
  check_language(Fortran)
  if(CMAKE_Fortran_COMPILER)
    enable_language(Fortran)
    set(ICECORE_HAS_FORTRAN ON)
  elseif(NOT ICECORE_FORTRAN STREQUAL "AUTO")
    message(FATAL_ERROR "ICECORE_FORTRAN is ${ICECORE_FORTRAN}, but there is no Fortran compiler; scripts/install-dependencies fortran installs one")
  endif()
endif()
