"""What must hold for an sdist and a wheel before anyone installs them."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Namespaces of the levels, in names as the compiler writes them: some demanglers do not know constraints.
VECTOR_NAMESPACE = re.compile(r"slidejoin(4avx2|6avx512)")
VECTOR_INSTRUCTION = re.compile(r"\t(v[a-z]\w*|k(mov|and|or|test|not)\w*) ")


class AuditError(Exception):
    """A file that must not be published."""


def run_tool(*command: object) -> str:
    """The output of a program of this environment, or an error with it. It finds the others there."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PATH": path},
    )
    if done.returncode:
        raise AuditError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def tracked_files() -> set[str] | None:
    """The files of the repository, or None outside of one."""
    git = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, capture_output=True, text=True, check=False)
    return None if listed.returncode else set(listed.stdout.splitlines())


def check_sdist(sdist: Path, needed: set[str]) -> None:
    """An sdist has the files that are needed to build it, and none that are not of the repository."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    package = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*")
        if path.suffix in {".py", ".pyi", ".typed", ".json", ".html", ".css", ".js"}
    }
    needed = needed | package | {"CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md"}
    if missing := needed - names:
        raise AuditError(f"{sdist.name} lacks {', '.join(sorted(missing))}")
    tracked = tracked_files()
    if tracked is not None and (extra := names - tracked - {"PKG-INFO"}):
        raise AuditError(f"{sdist.name} has files that are not of the repository: {', '.join(sorted(extra))}")


def sources_of_build(build: Path) -> set[str]:
    """The files of the repository that the compiler has read for a build."""
    ninja = shutil.which("ninja", path=str(Path(sys.executable).parent)) or "ninja"
    deps = subprocess.run([ninja, "-C", str(build), "-t", "deps"], capture_output=True, text=True, check=True)
    paths = {Path(build, line.strip()).resolve() for line in deps.stdout.splitlines() if line[:1] == " "}
    inside = {str(path.relative_to(ROOT)) for path in paths if path.is_relative_to(ROOT)}
    found = {path for path in inside if path.startswith("core/")}
    if "core/engine.cpp" not in found:
        raise AuditError(f"{build} does not tell what was compiled")
    return found


def check_instructions(library: Path) -> set[str]:
    """Code outside the namespaces of the levels runs on any x86-64 processor; returns the levels.

    The linker keeps one copy of a template that several levels instantiate; were it compiled for AVX, older
    machines would crash in it.
    """
    sections = subprocess.run(["readelf", "-SW", str(library)], capture_output=True, text=True, check=True)
    if ".symtab" not in sections.stdout:
        raise AuditError(f"{library.name} has no names of functions: nobody can tell what is shared")
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(library)], capture_output=True, text=True, check=True
    ).stdout
    function, wrong, levels = "", set(), set()
    for line in listing.splitlines():
        if header := re.match(r"^[0-9a-f]+ <(.*)>:$", line):
            function = header[1]
        elif VECTOR_INSTRUCTION.search(line + " "):
            level = VECTOR_NAMESPACE.search(function)
            if level:
                levels.add(level[1][1:])
            else:
                wrong.add(function)
    if wrong:
        raise AuditError(f"{library.name} has vector instructions in shared code: {', '.join(sorted(wrong))}")
    return levels | {"portable"}


def runs_on(tag: str, platform: str) -> bool:
    """Whether what needs the system of a tag, such as ``manylinux_2_17_x86_64``, runs on a platform."""
    needs, has = (re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", name) for name in (tag, platform))
    if needs is None or has is None or needs[3] != has[3]:
        return False
    return (int(needs[1]), int(needs[2])) <= (int(has[1]), int(has[2]))


def check_wheel(wheel: Path, architecture: str, levels: set[str], platform: str | None) -> str:
    """Metadata, contents, instruction sets, and the oldest system that it runs on, which is returned."""
    run_tool("twine", "check", "--strict", wheel)
    run_tool("check_wheel_contents", wheel)
    report = run_tool("auditwheel", "show", wheel)
    found = re.search(r'following\s+platform\s+tag:\s+"(\w+)"', report)
    if found is None or (platform is not None and not runs_on(found[1], platform)):
        raise AuditError(f"{wheel.name} is not a wheel for {platform or 'this system'}:\n{report}")
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(wheel) as archive:
        (library,) = (entry for entry in archive.namelist() if entry.endswith(".so"))
        unpacked = Path(archive.extract(library, name))
        needs = subprocess.run(
            ["readelf", "-h", "-d", str(unpacked)], capture_output=True, text=True, check=True
        ).stdout
        machine = {"x86_64": "X86-64", "aarch64": "AArch64"}[architecture]
        if not re.search(rf"Machine:.*{machine}", needs):
            raise AuditError(f"{wheel.name} is not for {architecture}")
        if platform is not None and "libstdc++" in needs:
            raise AuditError(f"{wheel.name} needs the C++ library of the system")
        if architecture == "x86_64" and (have := check_instructions(unpacked)) != levels:
            raise AuditError(f"{wheel.name} has the levels {sorted(have)}; expected {sorted(levels)}")
    return found[1]
