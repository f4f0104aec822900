// Nothing: the target of the tests' precompiled headers needs a file (CMakeLists.txt).
