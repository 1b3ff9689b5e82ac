"""Audit what slidejoin and its developers install.

Without options, offline: each dependency that the package declares is imported by it, each foreign package
that it imports is declared, and each one that users install has a licence that may be used. `--online` asks a
service for known vulnerabilities of the pinned versions (pip-audit); it fails, and says so, where the service
cannot be reached.
"""

import argparse
import ast
import importlib.metadata
import json
import re
import subprocess
import sys

import environments
import requirements

ROOT = environments.ROOT
OWN = "slidejoin"
UNIMPORTED = {"pandas"}  # Spark needs it to call Python functions
PROVIDED = {"py4j"}  # a part of PySpark
# Licences of packages that users install: may be used with Apache-2.0 and ask for nothing but notices.
PERMISSIVE = re.compile(
    r"apache|bsd|mit\b|mit license|psf|python software|isc|hpnd|mpl|mozilla|zlib|unlicense|0bsd|cc0", re.I
)


def imported() -> set[str]:
    """Top-level names of foreign modules that the package imports, anywhere."""
    found = set()
    for path in (ROOT / "src" / OWN).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {OWN}


def declared() -> set[str]:
    """Names of the packages that users install: dependencies, and extras that are not for developers."""
    developer = {"test", "package", "dev", "release", "docs"}
    extras = [name for name in requirements.EXTRAS if name not in developer]
    lines = [line for extra in extras for line in requirements.requirements(extra)]
    lines += requirements.PROJECT["project"]["dependencies"]
    return {re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0].lower() for line in lines}


def licence(distribution: importlib.metadata.Distribution) -> str:
    """What a package says about its licence."""
    told = distribution.metadata
    classifiers = [c for c in told.get_all("Classifier") or [] if c.startswith("License ::")]
    return " ".join(
        [
            "".join(told.get_all("License-Expression") or []),
            *classifiers,
            "".join(told.get_all("License") or [])[:200],
        ]
    )


def check_offline() -> list[str]:
    """What is wrong, in words."""
    names = importlib.metadata.packages_distributions()
    modules = {name: {d.lower() for d in names.get(name, [name])} for name in imported()}
    known = declared() | PROVIDED
    wrong = [
        f"{name} is imported, but no extra declares it" for name, of in modules.items() if not of & known
    ]
    used = set().union(*modules.values())
    wrong += [
        f"{name} is declared, but never imported"
        for name in known
        if name not in used and name not in UNIMPORTED
    ]
    for name, distribution in environments.distributions(*known).items():
        if not PERMISSIVE.search(licence(distribution)):
            wrong.append(f"{name} has the licence {licence(distribution).strip() or '(none)'!r}")
    return sorted(wrong)


def check_online() -> None:
    """Ask a service about the pinned versions. A package that it says nothing about is a failure."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--no-deps", "--disable-pip", "-r"]
    done = subprocess.run([*command, str(environments.PINS)], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = (done.stderr.strip().splitlines() or ["no answer"])[-1][:300]
        raise SystemExit(
            f"nothing was audited, the vulnerability service cannot be reached: {reason}"
        ) from None
    skipped = [package for package in packages if "skip_reason" in package]
    found = [
        f"{package['name']} {package['version']}: {fault['id']}, fixed in {', '.join(fault['fix_versions'])}"
        for package in packages
        for fault in package.get("vulns", [])
    ]
    if skipped:
        reason = skipped[0]["skip_reason"]
        found.append(f"{len(skipped)} of {len(packages)} packages were not audited; the first: {reason}")
    if found:
        raise SystemExit("\n".join(found))
    sys.stdout.write(f"{len(packages)} packages, no known vulnerability\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--online", action="store_true", help="ask for known vulnerabilities")
    if parser.parse_args().online:
        check_online()
    elif wrong := check_offline():
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
