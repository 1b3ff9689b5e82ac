"""Write tools/constraints.txt: the newest versions of what developers and CI install, exactly.

Installs them into build/pins and lists what came, with all that they need. Run with the oldest Python that is
supported, so that every other one can install the same.
"""

import subprocess
import sys

import environments
import requirements

HEADER = "# What developers and CI install: exact versions, written by `make pin`.\n"


def main() -> None:
    if sys.version_info[:2] != (3, 11):
        found = sys.version.split()[0]
        raise SystemExit(f"Python {found}: pin with the oldest that is supported, make pin PYTHON=python3.11")
    python = environments.create(sys.executable, environments.ROOT / "build" / "pins")
    wanted = [line for name in ("build", "dev", "release") for line in requirements.requirements(name)]
    environments.call(python, *environments.PIP, "install", *dict.fromkeys(wanted))
    freeze = [str(python), "-m", "pip", "freeze"]
    listed = subprocess.run(freeze, capture_output=True, text=True, check=True).stdout.splitlines()
    environments.PINS.write_text(HEADER + "".join(f"{line}\n" for line in sorted(listed, key=str.lower)))


if __name__ == "__main__":
    main()
