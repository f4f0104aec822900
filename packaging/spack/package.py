"""A recipe for Spack. Of a checkout of the sources:

    spack repo create ~/icecore-recipes icecore
    mkdir -p ~/icecore-recipes/packages/icecore && cp packaging/spack/package.py ~/icecore-recipes/packages/icecore
    spack repo add ~/icecore-recipes
    spack dev-build --source-path . icecore@0.1.0

It names no archive, since no release is published yet.
"""

from spack.package import *


class Icecore(CMakePackage):
    """An ordered key-value store that keeps every version: a library for C++, C and Fortran, a command, clusters over MPI,
    and a server."""

    homepage = "https://hal.science/hal-03598396"

    license("Apache-2.0")

    version("0.1.0")

    variant("shared", default=True, description="Build the shared libraries")
    variant("mpi", default=True, description="Build icecore::mpi, clusters over the ranks of an MPI job")
    variant("fortran", default=True, description="Build the module for Fortran")
    variant("numa", default=True, description="Put files into the memory of NUMA nodes")
    variant("filters", default=True, description="Patterns and JSON in filters, by RE2 and simdjson")
    variant("git", default=True, description="The command's load --git and diff --patch")
    variant("ucx", default=False, description="Clients of icecore-server over UCX, and SKV's interface")
    variant("server", default=False, description="Build icecore-server")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    generator("ninja")

    depends_on("fmt@9:")
    depends_on("pmdk@1.11:")  # libpmem2
    depends_on("libsodium")
    depends_on("xxhash")
    depends_on("cli11")
    depends_on("nlohmann-json@3.10:")
    depends_on("zlib-api")
    depends_on("mpi", when="+mpi")
    depends_on("numactl", when="+numa")
    depends_on("re2", when="+filters")
    depends_on("simdjson", when="+filters")
    depends_on("libedit@3.1:")
    depends_on("zstd")
    depends_on("libgit2@1.1:", when="+git")
    depends_on("ucx", when="+ucx")
    with when("+server"):
        depends_on("grpc")
        depends_on("protobuf")
        depends_on("openssl@3:")
        depends_on("boost@1.74:")
        depends_on("prometheus-cpp")
        depends_on("toml11")

    requires("%gcc@12:", "%clang@16:", policy="one_of", msg="icecore needs C++20")

    def cmake_args(self):
        def chosen(name):
            return "ON" if self.spec.satisfies("+" + name) else "OFF"

        return [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("ICECORE_GIT", "git"),
            self.define("ICECORE_MPI", chosen("mpi")),
            self.define("ICECORE_FORTRAN", chosen("fortran")),
            self.define("ICECORE_NUMA", chosen("numa")),
            self.define("ICECORE_RE2", chosen("filters")),
            self.define("ICECORE_SIMDJSON", chosen("filters")),
            self.define("ICECORE_UCX", chosen("ucx")),
            self.define("ICECORE_SERVER", chosen("server")),
            self.define("ICECORE_BUILD_TESTS", False),
            self.define("ICECORE_BUILD_BENCHMARKS", False),
            self.define("ICECORE_WERROR", False),
        ]

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_command(self):
        icecore = Executable(join_path(self.prefix.bin, "icecore"))
        with working_dir("spack-check", create=True):
            icecore("put", "store.ice", "key", "value")
            assert icecore("get", "store.ice", "key", output=str) == "value"
