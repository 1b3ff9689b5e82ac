"""Build the sdist and the wheels of a release, check them, and try them in clean environments.

    python tools/package.py --python python3.11 --python python3.12     all that is published, into dist/
    python tools/package.py --here     short: the sdist, and a wheel from what `make setup` has compiled

A Python from 3.12 on makes the wheel of the stable ABI, which all later ones use; Python 3.11 needs its own.
What is built is a function of the sources: `--again` builds all twice, in two places, and compares the bytes.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

import audit
import environments
import zig

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "package"
LEVELS = {"0": "portable", "1": "avx2", "2": "avx512"}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def source_date() -> str:
    """The time that all files in an archive get: that of the last commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    git = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    found = subprocess.run(git, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "1704067200"


def build(python: Path, source: Path, out: Path, *what: str, **environment: str) -> Path:
    """Run the build backend in an environment that has it; the file that it makes."""
    shutil.rmtree(out, ignore_errors=True)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    command = [str(python), "-m", "build", "--no-isolation", "--outdir", str(out), *what, str(source)]
    variables = {**os.environ, "SOURCE_DATE_EPOCH": source_date(), "PATH": path, **environment}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    (file,) = out.iterdir()
    return file


def same(one: Path, other: Path) -> None:
    """Two builds gave the same bytes."""
    if one.name != other.name or one.read_bytes() != other.read_bytes():
        raise audit.AuditError(f"{one} and {other} differ: the build is not reproducible")


def unpack(sdist: Path, place: Path) -> Path:
    """The sources as a user of the sdist has them."""
    shutil.rmtree(place, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    (source,) = place.iterdir()
    return source


def build_wheel(python: Path, sdist: Path, architecture: str, place: Path) -> Path:
    """A wheel from the sdist, for a processor and glibc 2.28 or newer."""
    source = unpack(sdist, place / "source")
    toolchain = zig.toolchain(architecture, place / "toolchain", place)
    settings = [f"-Cbuild-dir={place / 'build'}", f"-Ccmake.define.CMAKE_TOOLCHAIN_FILE={toolchain}"]
    shutil.rmtree(place / "build", ignore_errors=True)
    wheel = build(
        python,
        source,
        place / "plain",
        "--wheel",
        *settings,
        _PYTHON_HOST_PLATFORM=f"linux-{architecture}",
    )
    repaired = place / "repaired"
    shutil.rmtree(repaired, ignore_errors=True)
    os.environ["SOURCE_DATE_EPOCH"] = source_date()
    # The oldest platform that fits: auditwheel takes no name of another processor's.
    audit.run_tool("auditwheel", "repair", "--only-plat", "--plat", "auto", "-w", repaired, wheel)
    (file,) = repaired.iterdir()
    return file


def package(pythons: Sequence[str], architectures: Sequence[str], out: Path, *, again: bool) -> None:
    """Everything that is published."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("slidejoin-*"):
        old.unlink()
    sdist = build(Path(sys.executable), ROOT, WORK / "sdist", "--sdist")
    audit.check_sdist(sdist, set())
    audit.run_tool("twine", "check", "--strict", sdist)
    if again:
        same(sdist, build(Path(sys.executable), ROOT, WORK / "sdist-again", "--sdist"))
    shutil.copy(sdist, out)
    for name in pythons:
        python = environments.for_building(name, WORK / "build-python" / Path(name).name)
        for architecture in architectures:
            began = time.monotonic()
            wheel = build_wheel(python, sdist, architecture, WORK / architecture)
            levels = set(LEVELS.values()) if architecture == "x86_64" else {"portable"}
            audit.check_wheel(wheel, architecture, levels, zig.platform(architecture))
            if again:
                same(wheel, build_wheel(python, sdist, architecture, WORK / f"{architecture}-again"))
            shutil.copy(wheel, out)
            say(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {time.monotonic() - began:.0f} s")
            if architecture == os.uname().machine:
                environments.try_wheel(name, wheel, WORK / "try")
            else:
                say(
                    f"  not tried: this machine is {os.uname().machine}; run tools/smoke.py on {architecture}"
                )
    environments.try_sdist(pythons[-1], sdist, WORK / "try")
    for file in sorted(out.glob("slidejoin-*")):
        say(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}")


def package_here(directory: Path) -> None:
    """The short form: the wheel of this machine, from the objects of `make setup`."""
    python = Path(sys.executable)
    sdist = build(python, ROOT, WORK / "sdist", "--sdist")
    same(sdist, build(python, ROOT, WORK / "sdist-again", "--sdist"))
    audit.check_sdist(sdist, audit.sources_of_build(directory))
    audit.run_tool("twine", "check", "--strict", sdist)
    settings = [f"-Cbuild-dir={directory}", "-Ccmake.define.SLIDEJOIN_LEVELS=native"]
    wheel = build(python, ROOT, WORK / "here", "--wheel", *settings)
    same(wheel, build(python, ROOT, WORK / "here-again", "--wheel", *settings))
    from slidejoin import isa

    levels = {isa.available()[0], isa.available()[-1]}
    tag = audit.check_wheel(wheel, os.uname().machine, levels, None)
    say(f"{sdist.name}, {wheel.name} ({tag}): reproducible, complete")
    environments.try_wheel(sys.executable, wheel, WORK / "try", borrow=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", help="builds wheels; may be given again")
    parser.add_argument("--target", action="append", choices=zig.ARCHITECTURES)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--again", action="store_true", help="build all twice, and compare")
    parser.add_argument(
        "--here", type=Path, metavar="BUILD", help="the short form, from this build directory"
    )
    options = parser.parse_args()
    try:
        if options.here:
            package_here(options.here.resolve())
        else:
            pythons = options.python or [sys.executable]
            package(pythons, options.target or zig.ARCHITECTURES, options.out.resolve(), again=options.again)
    except audit.AuditError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
