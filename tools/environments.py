"""Environments in which packages are built and tried: only what they need, and nothing of the checkout."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "tools" / "constraints.txt"
PIP = ("-m", "pip", "--disable-pip-version-check", "-q")


def call(*command: object) -> None:
    """Run a program; its output is shown only if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    if "tools/smoke.py" in " ".join(map(str, command)):
        sys.stdout.write(done.stdout)


def create(python: str, place: Path, *, pip: bool = True) -> Path:
    """A new, empty environment; its Python."""
    shutil.rmtree(place, ignore_errors=True)
    call(python, "-m", "venv", *([] if pip else ["--without-pip"]), place)
    return place / "bin" / "python"


def for_building(python: str, place: Path) -> Path:
    """An environment that compiles the core, with the pinned tools."""
    found = create(python, place)
    needed = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "requirements.py"), "build"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    call(found, *PIP, "install", "-c", PINS, "build", *filter(None, needed))
    return found


def distributions(*names: str) -> dict[str, importlib.metadata.Distribution]:
    """Installed packages and all that they need, by name; without those that this environment lacks."""
    found: dict[str, importlib.metadata.Distribution] = {}
    todo = list(names)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        needed = [line for line in found[name].requires or [] if "extra ==" not in line]
        todo += [re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in needed]
    return found


def lend(place: Path, *names: str) -> None:
    """Link packages of this environment into another one, instead of another download of 60 MB."""
    (target,) = place.glob("lib/python*/site-packages")
    for distribution in distributions(*names).values():
        for top in {
            file.parts[0] for file in distribution.files or [] if file.parts[0] not in {"..", "__pycache__"}
        }:
            if not (target / top).exists():
                (target / top).symlink_to(Path(str(distribution.locate_file(top))).resolve())


def smoke(python: Path, *options: str) -> None:
    call(python, "-I", ROOT / "tools" / "smoke.py", *options)


def try_wheel(python: str, wheel: Path, place: Path, *, borrow: bool = False) -> None:
    """Install a wheel, then its extra ``cli``, in a clean environment, and join."""
    found = create(python, place, pip=not borrow)
    if borrow:
        for packages, options in ((["numpy", "pyarrow"], []), (["typer", "rich"], ["--cli"])):
            lend(place, *packages)
            extra = "[cli]" if options else ""
            call(
                sys.executable,
                *PIP,
                "--python",
                found,
                "install",
                "--no-index",
                "--force-reinstall",
                "--no-deps",
                wheel,
            )
            call(sys.executable, *PIP, "--python", found, "install", "--no-index", f"slidejoin{extra}")
            smoke(found, *options)
        return
    call(found, *PIP, "install", wheel)
    call(found, *PIP, "check")
    smoke(found)
    call(found, *PIP, "install", f"{wheel}[cli]")
    smoke(found, "--cli")


def try_sdist(python: str, sdist: Path, place: Path) -> None:
    """Build and install an sdist as a user without a wheel does, with the compiler of the system."""
    found = create(python, place)
    call(found, *PIP, "install", "--no-binary", "slidejoin", f"slidejoin[cli] @ {sdist.as_uri()}")
    smoke(found, "--cli")
