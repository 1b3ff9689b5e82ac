"""Seeded bugs: applies the mistakes of mutants.toml one at a time; each must make a test fail.

    python tests/mutants/run.py [--only PATTERN ...] [-j N] [--write]

For each mutant the core, or for a Python file the package, is copied into a temporary directory, the mistake
is made there, and the few test files that can notice it are compiled and run. Objects are kept by what the
compiler sees, verdicts by what a program or a run of pytest consists of, in build/mutants: only what a
mistake or a change affects is compiled and run again. The tests must pass without any mistake first. Fails if
a mutant survives, no longer applies or does not compile; `--write` keeps the outcome in RESULTS.md, with
`--only` that of the mutants named.
"""

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import functools
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from mutants import package_copy  # noqa: E402

ROOT = HERE.parent.parent
CORE = ROOT / "core"
CACHE = ROOT / "build" / "mutants"
RESULTS = HERE / "RESULTS.md"

# The indexes of the core: kind, class template, header.
STRUCTURES = {
    kind: (template, header)
    for kind, template, header in re.findall(
        r'^ +X\((\w+), (\w+), (\w+), "', (CORE / "catalog.hpp").read_text(), re.MULTILINE
    )
}

# What tests need besides, on the portable copy: a file of the core.
JOINS = {"test_run_join": "run_join", "test_tables": "table_join"}
WHOLE_JOIN = {
    "test_engine",
    "test_plans",
    "test_portions",
    "test_strategies",
    "test_workers",
}  # need the driver, too; they run on the portable copy
APART = {"test_allocation", "test_fuzz_corpus"}  # need a linker's option or files, too
# Need nothing else, and run under ThreadSanitizer, on the portable copy.
THREADED = {"test_shared_index"}


def structures_of(test: pathlib.Path) -> list[str]:
    """The structures that a test file asks for: those whose headers it includes. Others are not compiled."""
    if test.stem in WHOLE_JOIN:
        return list(STRUCTURES)
    included = re.findall(r'^#include "../index/(\w+).hpp"', test.read_text(), re.MULTILINE)
    return [kind for kind, (_, header) in STRUCTURES.items() if header in included]


TESTS = {
    path.stem: structures_of(path)
    for path in sorted((CORE / "tests").glob("test_*.cpp"))
    if path.stem not in APART
}

LEVELS = {0: "portable", 1: "avx2", 2: "avx512"}
NEEDED = {
    0: set[str](),
    1: {"avx2", "bmi1", "bmi2"},
    2: {"avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl"},
}
MEMORY = 8 << 30  # of a test that a mistake makes greedy
LEAST_TIME = 30.0  # seconds before a test counts as endless


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A mistake: the text of a file that is replaced, once."""

    name: str
    file: str
    find: str
    replace: str
    means: str
    tests: tuple[str, ...]
    level: int | None = None  # the instruction set that has this code; any if None

    @property
    def in_package(self) -> bool:
        """Whether the file is one of src/slidejoin; others are of core/."""
        return self.file.endswith(".py")

    @property
    def path(self) -> pathlib.Path:
        return (package_copy.PACKAGE if self.in_package else CORE) / self.file

    def apply(self, text: str) -> str:
        times = text.count(self.find)
        if times != 1:
            raise DoesNotApplyError(f"its text stands {times} times in {self.file}")
        if self.find == self.replace:
            raise DoesNotApplyError("it changes nothing")
        return text.replace(self.find, self.replace)


class DoesNotApplyError(Exception):
    """The text to replace is not there exactly once."""


class DoesNotCompileError(Exception):
    """The compiler refuses a mutant."""


def read_mutants() -> list[Mutant]:
    content = tomllib.loads((HERE / "mutants.toml").read_text())
    mutants = [
        Mutant(**{**each, "tests": tuple(each.get("tests") or content["tests"][each["file"]])})
        for each in content["mutant"]
    ]
    names = [mutant.name for mutant in mutants]
    if len(set(names)) != len(names):
        raise ValueError(f"mutants of one name: {sorted({name for name in names if names.count(name) > 1})}")
    return mutants


def supported_levels() -> set[int]:
    try:
        flags = set(re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[1].split())
    except (OSError, TypeError):
        flags = set()
    return {level for level, needed in NEEDED.items() if needed <= flags}


def stubs(level: int, kinds: list[str], engine: bool, join: str | None) -> str:
    """What a test program names and never calls: the other structures, and the joins of other levels."""
    headers = ("target", "structures", "run_join")
    lines = [*(f'#include "core/{header}.hpp"' for header in headers), "namespace slidejoin {"]
    absent = [kind for kind in STRUCTURES if kind not in kinds]
    if not engine:
        absent.append("shared_index")
    lines.append(f"namespace {LEVELS[level]} {{")
    for kind in absent:
        lines += [
            f"template <class Key> std::unique_ptr<IndexPair<Key>> make_{kind}(const JoinSpec&) {{"
            f' throw std::logic_error("{kind} is not in this program"); }}',
            f"template std::unique_ptr<IndexPair<std::uint32_t>> make_{kind}(const JoinSpec&);",
            f"template std::unique_ptr<IndexPair<std::uint64_t>> make_{kind}(const JoinSpec&);",
        ]
    lines.append("}")
    for other in {0, level}:
        if not engine:
            lines.append(
                f"namespace {LEVELS[other]} {{ std::unique_ptr<Engine> make(const JoinSpec&) {{"
                ' throw std::logic_error("no join in this program"); } }'
            )
        if not (join == "table_join" and other == level):
            lines.append(
                f"namespace {LEVELS[other]} {{ void join_tables(const TableJoinSpec&, const Batch&,"
                " const Batch&, TableJoinResult&) {"
                ' throw std::logic_error("no join of tables in this program"); } }'
            )
        if not (join == "run_join" and other == level):
            lines.append(
                f"namespace {LEVELS[other]} {{ std::unique_ptr<RunJoin> make_runs(const JoinSpec&) {{"
                ' throw std::logic_error("no join of runs in this program"); } }'
            )
    lines.append("}")
    return "\n".join(lines) + "\n"


class Compiler:
    """Compiles files of a copy of the core, unless the same text was compiled before."""

    def __init__(self, command: str):
        self.command = command
        self.version = subprocess.run(
            [command, "--version"], capture_output=True, text=True, check=True
        ).stdout
        (CACHE / "objects").mkdir(parents=True, exist_ok=True)

    def object(self, tree: pathlib.Path, source: str, defines: list[str], *sanitizers: str) -> pathlib.Path:
        flags = ["-std=c++20", "-O1", "-w", "-I.", *(f"-D{define}" for define in defines), *sanitizers]
        seen = self.run([*flags, "-E", "-P", source], tree)
        key = hashlib.sha256("\0".join([self.version, *flags, source, seen]).encode()).hexdigest()[:40]
        made = CACHE / "objects" / f"{key}.o"
        if not made.exists():
            with tempfile.NamedTemporaryFile(dir=made.parent, suffix=".tmp", delete=False) as file:
                path = pathlib.Path(file.name)
            try:
                self.run([*flags, "-c", source, "-o", str(path)], tree)
                path.rename(made)
            finally:
                path.unlink(missing_ok=True)
        return made

    def run(self, arguments: list[str], tree: pathlib.Path) -> str:
        done = subprocess.run(
            [self.command, *arguments], cwd=tree, capture_output=True, text=True, check=False
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
            raise DoesNotCompileError(lines[0])
        return done.stdout


@dataclasses.dataclass
class Program:
    """A test file linked with what it needs, in a copy of the core."""

    objects: list[pathlib.Path]
    sanitizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return hashlib.sha256("".join(each.name for each in self.objects).encode()).hexdigest()[:40]


def build(compiler: Compiler, tree: pathlib.Path, test: str, level: int) -> Program:
    engine = test in WHOLE_JOIN
    kinds = TESTS[test]
    own = [f"SLIDEJOIN_LEVEL={level}"]
    if test in THREADED:
        named = ("core/tests/main.cpp", f"core/tests/{test}.cpp")
        flag = "-fsanitize=thread"
        return Program([compiler.object(tree, source, own, flag) for source in named], (flag,))
    picked = [f"SLIDEJOIN_{LEVELS[level].upper()}"] if level else []
    stub = tree / f"stubs_{test}_{level}.cpp"
    stub.write_text(stubs(level, kinds, engine, JOINS.get(test)))
    sources = [
        ("core/tests/main.cpp", own),
        (f"core/tests/{test}.cpp", own),
        ("core/engine.cpp", picked),
        (stub.name, own),
    ]
    if engine:
        sources += [("core/level.cpp", own), ("core/shared_index.cpp", own)]
    if test in JOINS:
        sources.append((f"core/{JOINS[test]}.cpp", own))
    for kind in kinds:
        template, header = STRUCTURES[kind]
        named = [
            f"SLIDEJOIN_KIND={kind}",
            f"SLIDEJOIN_STRUCTURE={template}",
            f'SLIDEJOIN_HEADER="index/{header}.hpp"',
        ]
        sources.append(("core/structure.cpp", own + named))
    return Program([compiler.object(tree, source, defines) for source, defines in sources])


@dataclasses.dataclass
class Verdict:
    """How a test program ended: what noticed something, or None; and how long it took."""

    noticed: str | None
    seconds: float


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def kept_verdict(key: str, most: float, run: Callable[[], str | None]) -> Verdict:
    """The verdict that is kept under a key, or that of a run, which is then kept."""
    kept = CACHE / "verdicts" / f"{key}.json"
    if kept.exists():
        return Verdict(**json.loads(kept.read_text()))
    began = time.monotonic()
    try:
        noticed = run()
    except subprocess.TimeoutExpired:
        return Verdict(f"no end after {most:.0f} s", most)  # not kept: the machine may have been busy
    verdict = Verdict(noticed, time.monotonic() - began)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(dataclasses.asdict(verdict)))
    return verdict


def execute(compiler: Compiler, tree: pathlib.Path, program: Program, most: float) -> Verdict:
    def run() -> str | None:
        binary = tree / f"test_{program.key}"
        compiler.run([*map(str, program.objects), *program.sanitizers, "-o", str(binary)], tree)
        try:
            done = subprocess.run(
                [str(binary)],
                cwd=tree,
                capture_output=True,
                timeout=most,
                env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"},
                preexec_fn=None if program.sanitizers else limit_memory,  # shadow memory is large
                check=False,
            )
        finally:
            binary.unlink()
        race = re.search(
            r"^WARNING: (ThreadSanitizer: .*?) \(pid", done.stderr.decode(errors="replace"), re.M
        )
        if race:
            return race[1]
        return noticed_by(done.returncode, done.stdout.decode(errors="replace"))

    return kept_verdict(program.key, most, run)


def execute_python(copy: pathlib.Path, tests: tuple[str, ...], most: float) -> Verdict:
    run = functools.partial(package_copy.run_tests, copy, tests, most)
    return kept_verdict(package_copy.key(copy, tests), most, run)


def noticed_by(code: int, output: str) -> str | None:
    if code == 0:
        return None
    failed = re.search(r"^FAILED (\w+): (.*)$", output, re.M)
    if failed:
        place = re.match(r"\S*?(\w+\.[ch]pp):(\d+): (.*)", failed[2])
        if place:
            return f"{failed[1]}: {place[3]} ({place[1]})"
        return f"{failed[1]}: check(): {failed[2]}"
    if code < 0:
        return f"crash ({signal.Signals(-code).name})"
    raise RuntimeError(f"a test program ended with {code}: {output[-500:]}")


@dataclasses.dataclass
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    word: str  # found, NOT FOUND, does not apply, does not compile, skipped
    by: str = ""

    @property
    def good(self) -> bool:
        return self.word in ("found", "skipped")


class Runner:
    """Runs mutants against the tests; base times come first and bound the mutants'."""

    def __init__(self, core: pathlib.Path = CORE):
        self.core = core
        self.compiler = Compiler(os.environ.get("CXX", "g++"))
        self.levels = supported_levels()
        self.base: dict[tuple[str, int], float] = {}  # seconds without a mistake
        self.base_python: dict[tuple[str, ...], float] = {}

    def level_of(self, mutant: Mutant, test: str) -> int:
        if mutant.level is not None:
            return mutant.level
        return 0 if test in WHOLE_JOIN | JOINS.keys() | THREADED else max(self.levels - {1})

    def needs(self, mutants: list[Mutant]) -> list[tuple[str, int]]:
        runnable = [
            mutant
            for mutant in mutants
            if not mutant.in_package and (mutant.level is None or mutant.level in self.levels)
        ]
        return sorted({(test, self.level_of(mutant, test)) for mutant in runnable for test in mutant.tests})

    def check_base(self, test: str, level: int) -> str | None:
        """Runs a test on the core as it is. Returns what it noticed, which should be nothing."""
        with tempfile.TemporaryDirectory(prefix="slidejoin-mutants-") as directory:
            tree = pathlib.Path(directory)
            shutil.copytree(self.core, tree / "core")
            verdict = execute(self.compiler, tree, build(self.compiler, tree, test, level), 600)
        self.base[test, level] = verdict.seconds
        return verdict.noticed

    def check_base_python(self, tests: tuple[str, ...]) -> str | None:
        """The same for tests of the package."""
        with tempfile.TemporaryDirectory(prefix="slidejoin-mutants-") as directory:
            verdict = execute_python(package_copy.make_copy(pathlib.Path(directory)), tests, 600)
        self.base_python[tests] = verdict.seconds
        return verdict.noticed

    def run_python(self, mutant: Mutant) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="slidejoin-mutants-") as directory:
            copy = package_copy.make_copy(pathlib.Path(directory))
            try:
                (copy / mutant.file).write_text(mutant.apply((copy / mutant.file).read_text()))
                most = max(LEAST_TIME, 6 * self.base_python[mutant.tests])
                noticed = execute_python(copy, mutant.tests, most).noticed
            except DoesNotApplyError as error:
                return Outcome(mutant, "does not apply", str(error))
            except package_copy.BrokenCopyError as error:
                return Outcome(mutant, "does not compile", str(error))
        if noticed:
            return Outcome(mutant, "found", noticed)
        return Outcome(mutant, "NOT FOUND", f"{', '.join(mutant.tests)} passed")

    def run(self, mutant: Mutant) -> Outcome:
        if mutant.in_package:
            return self.run_python(mutant)
        if mutant.level is not None and mutant.level not in self.levels:
            return Outcome(mutant, "skipped", f"this processor lacks {LEVELS[mutant.level]}")
        with tempfile.TemporaryDirectory(prefix="slidejoin-mutants-") as directory:
            tree = pathlib.Path(directory)
            shutil.copytree(self.core, tree / "core")
            path = tree / "core" / mutant.file
            try:
                path.write_text(mutant.apply(path.read_text()))
                for test in mutant.tests:
                    level = self.level_of(mutant, test)
                    program = build(self.compiler, tree, test, level)
                    most = max(LEAST_TIME, 6 * self.base[test, level])
                    noticed = execute(self.compiler, tree, program, most).noticed
                    if noticed:
                        return Outcome(mutant, "found", f"{test}: {noticed}")
            except DoesNotApplyError as error:
                return Outcome(mutant, "does not apply", str(error))
            except DoesNotCompileError as error:
                return Outcome(mutant, "does not compile", str(error))
        return Outcome(mutant, "NOT FOUND", f"{', '.join(mutant.tests)} passed")


def write_results(outcomes: list[Outcome], mutants: list[Mutant]) -> None:
    """Write the outcomes, and keep those of mutants that were not run."""
    rows = {line.split(" | ")[0][2:]: line for line in RESULTS.read_text().splitlines() if line[:2] == "| "}
    for each in outcomes:
        by = each.by if each.word == "found" else f"**{each.word}**: {each.by}"
        cells = [each.mutant.name, each.mutant.file, each.mutant.means, by]
        rows[each.mutant.name] = (
            "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
        )
    lines = [rows[mutant.name] for mutant in mutants if mutant.name in rows]
    head = [
        "# Seeded bugs and what found them",
        "",
        "Written by `make mutants`; `mutants.toml` has the mistakes themselves.",
        "",
        f"{sum('| **' not in line and '| not run' not in line for line in lines)} of {len(mutants)} found.",
        "",
        "| mutant | file | mistake | found by |",
        "|---|---|---|---|",
    ]
    RESULTS.write_text("\n".join(head + lines) + "\n")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(
        description="makes mistakes in the core and the package and looks whether a test notices"
    )
    parser.add_argument(
        "--only", nargs="+", metavar="PATTERN", help="names of mutants, or patterns such as 'queue-*'"
    )
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="keep the outcome in RESULTS.md")
    arguments = parser.parse_args()
    everything = mutants = read_mutants()
    if arguments.only:
        mutants = [each for each in mutants if any(fnmatch.fnmatch(each.name, one) for one in arguments.only)]
        if not mutants:
            parser.error("no mutant has such a name")
    runner = Runner()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        needed = [
            (f"{test} ({LEVELS[level]})", runner.check_base, (test, level))
            for test, level in runner.needs(mutants)
        ]
        needed += [
            (" ".join(tests), runner.check_base_python, (tests,))
            for tests in sorted({mutant.tests for mutant in mutants if mutant.in_package})
        ]
        bases = pool.map(lambda base: base[1](*base[2]), needed)
        for (what, *_), noticed in zip(needed, bases, strict=True):
            say(f"base {what}: {noticed or 'passes'}")
            if noticed:
                say("the tests must pass without a mistake before one can be found")
                return 2
        outcomes: list[Outcome] = []
        for outcome in pool.map(runner.run, mutants):
            outcomes.append(outcome)
            say(f"[{len(outcomes)}/{len(mutants)}] {outcome.mutant.name}: {outcome.word}: {outcome.by}")
    if arguments.write:
        write_results(outcomes, everything)
    bad = [each for each in outcomes if not each.good]
    say(f"{len(outcomes) - len(bad)} of {len(outcomes)} mutants found or skipped; {len(bad)} not")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
