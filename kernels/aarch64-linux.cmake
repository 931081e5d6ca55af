# Cross-compiles for Linux on aarch64 (`make wheel ARCH=aarch64`) with the Clang, the linker and the C library's interface
# of the package ziglang. The C library's version is the oldest that the modules run with: glibc 2.28, of 2018.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

# CMake reads this file again for each check of the compiler, where only these variables are known.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DP_ZIG)
if(NOT DP_ZIG)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).with_name('zig'))"
    OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE DP_ZIG)
endif()
set(CMAKE_CXX_COMPILER "${DP_ZIG}" c++ -target aarch64-linux-gnu.2.28)
# Archives need an index of symbols, which this machine's `ar` may not make for another kind of object file.
set(CMAKE_CXX_ARCHIVE_CREATE "\"${DP_ZIG}\" ar qcs <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "")
# nanobind uses `stderr`, for which it counts on headers that this C++ library and Python's stable ABI do not include. Python
# then defines anew which parts of the C library it asks for.
set(CMAKE_CXX_FLAGS_INIT "-include cstdio -Wno-macro-redefined")
# The name of a module that is not for the stable ABI has the machine's in it.
string(REPLACE "x86_64" "aarch64" SKBUILD_SOABI "${SKBUILD_SOABI}")
