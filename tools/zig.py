"""A compiler for an old glibc and for other processors: clang and libc++ of the PyPI package ``ziglang``.

``toolchain`` writes what CMake needs to compile with it. The wheel then runs on every Linux with this glibc
or a newer one, and carries its own C++ library; no container is needed.
"""

import importlib.util
from pathlib import Path

GLIBC = "2.28"  # as pyarrow's wheels: an older one would gain no machine
ARCHITECTURES = ("x86_64", "aarch64")

TOOLCHAIN = """\
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR {architecture})
set(CMAKE_CXX_COMPILER "{directory}/c++")
set(CMAKE_AR "{directory}/ar")
set(CMAKE_RANLIB "{directory}/ranlib")
# Names of functions stay: what goes wrong can be told where. Its linker drops them for --strip-debug, too.
set(CMAKE_CXX_FLAGS_INIT "-g0 -ffile-prefix-map={source}=.")
# Its precompiled headers are not those that CMake writes rules for.
set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
"""


def program() -> Path:
    """The compiler, of the environment that runs this."""
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        raise SystemExit("wheels need the package ziglang: run `make package`, which installs it")
    return Path(found.origin).with_name("zig")


def platform(architecture: str) -> str:
    """The tag of wheels that it makes for a processor."""
    return f"manylinux_{GLIBC.replace('.', '_')}_{architecture}"


def toolchain(architecture: str, directory: Path, source: Path) -> Path:
    """Write a toolchain file for CMake, and the programs that it names, to a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    target = f"c++ -target {architecture}-linux-gnu.{GLIBC}"
    for name, command in (("c++", target), ("ar", "ar"), ("ranlib", "ranlib")):
        script = directory / name
        script.write_text(f'#!/bin/sh\nexec "{program()}" {command} "$@"\n')
        script.chmod(0o755)
    file = directory / "toolchain.cmake"
    file.write_text(TOOLCHAIN.format(architecture=architecture, directory=directory, source=source))
    return file
