"""What publishes the package: audits that refuse what they must, pins, dependencies, workflows and hooks."""

import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import audit
import dependencies
import package
import pytest
import requirements
import version
import zig

ROOT = Path(__file__).parents[1]
PINS = dict(
    line.split("==") for line in (ROOT / "tools/constraints.txt").read_text().splitlines() if line[:1] != "#"
)


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def sdist_of(path, names):
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"slidejoin-0/{name}"), io.BytesIO())
    return path


def names_of_the_package():
    files = audit.tracked_files()
    if files is None:
        pytest.skip("needs the repository")
    kept = {name for name in files if name.startswith(("src/", "core/")) and (ROOT / name).exists()}
    return kept | {"CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md", "PKG-INFO"}


def test_an_sdist_without_a_source_is_refused(tmp_path):
    names = names_of_the_package()
    audit.check_sdist(sdist_of(tmp_path / "whole.tar.gz", names), {"core/engine.cpp"})
    for lost in (
        "core/engine.cpp",
        "src/slidejoin/py.typed",
        "src/slidejoin/model/default_costs.json",
        "LICENSE",
    ):
        with pytest.raises(audit.AuditError, match=f"lacks {lost}"):
            audit.check_sdist(sdist_of(tmp_path / "torn.tar.gz", names - {lost}), {"core/engine.cpp"})


def test_an_sdist_with_a_foreign_file_is_refused(tmp_path):
    names = names_of_the_package() | {"notes/of/mine.txt"}
    with pytest.raises(audit.AuditError, match=r"not of the repository: notes/of/mine\.txt"):
        audit.check_sdist(sdist_of(tmp_path / "more.tar.gz", names), set())


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("manylinux_2_17_x86_64", True),
        ("manylinux_2_28_x86_64", True),
        ("manylinux_2_34_x86_64", False),
        ("manylinux_2_17_aarch64", False),
        ("linux_x86_64", False),
    ],
)
def test_wheels_for_newer_or_other_systems_are_refused(tag, fits):
    assert audit.runs_on(tag, "manylinux_2_28_x86_64") == fits


def test_builds_that_differ_are_refused(tmp_path):
    one, other = tmp_path / "1" / "a.whl", tmp_path / "2" / "a.whl"
    for path in (one, other):
        path.parent.mkdir()
        path.write_bytes(b"same")
    package.same(one, other)
    other.write_bytes(b"other")
    with pytest.raises(audit.AuditError, match="not reproducible"):
        package.same(one, other)


@pytest.mark.parametrize("architecture", zig.ARCHITECTURES)
def test_the_toolchain_names_its_programs(architecture, tmp_path, monkeypatch):
    monkeypatch.setattr(zig, "program", lambda: Path("/somewhere/zig"))
    text = zig.toolchain(architecture, tmp_path, ROOT).read_text()
    assert f"CMAKE_SYSTEM_PROCESSOR {architecture}" in text
    for name in ("c++", "ar", "ranlib"):
        assert f'"{tmp_path}/{name}"' in text
        assert (tmp_path / name).stat().st_mode & 0o111
    assert f"-target {architecture}-linux-gnu.{zig.GLIBC}" in (tmp_path / "c++").read_text()
    assert zig.platform(architecture) == f"manylinux_2_28_{architecture}"


def test_shared_vector_code_is_refused(tmp_path):
    source = tmp_path / "shared.cpp"
    source.write_text('extern "C" void shared(float* x) { for (int i = 0; i < 64; ++i) x[i] *= 2; }\n')
    library = tmp_path / "shared.so"
    command = ["c++", "-O3", "-shared", "-fPIC", str(source), "-o", str(library)]
    if subprocess.run([*command, "-mavx2"], capture_output=True, check=False).returncode:
        pytest.skip("needs a compiler for x86-64")
    with pytest.raises(audit.AuditError, match="vector instructions in shared code: shared"):
        audit.check_instructions(library)
    subprocess.run(command, check=True)
    assert audit.check_instructions(library) == {"portable"}
    subprocess.run([*command, "-s"], check=True)
    with pytest.raises(audit.AuditError, match="no names of functions"):
        audit.check_instructions(library)


def test_tools_find_the_programs_of_their_environment(tmp_path, monkeypatch):
    here = Path(sys.executable).parent
    (tmp_path / "where.py").write_text(f"import shutil; print(shutil.which({Path(sys.executable).name!r}))")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(audit.run_tool("where").strip()).parent == here


def test_the_tag_of_a_release_is_its_version():
    tag = [sys.executable, str(ROOT / "tools/version.py"), "--tag"]
    found = requirements.PROJECT["project"]["version"]
    assert subprocess.run([*tag, f"v{found}"], check=False).returncode == 0
    wrong = subprocess.run([*tag, "v9.9.9"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert f"tag v{found}" in wrong.stderr


def test_notes_are_the_section_of_the_version():
    text = "# Changelog\n\n## 0.2.0 (2024-01-01)\n\n- new\n\n## 0.1.0\n\n- old\n"
    assert version.notes("0.2.0", text) == "- new\n"
    assert version.notes("0.1.0", text) == "- old\n"
    with pytest.raises(SystemExit, match=r"no section '## 0\.3\.0'"):
        version.notes("0.3.0", text)


def test_metadata_name_the_pythons_that_are_tested():
    project = requirements.PROJECT["project"]
    named = {c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r":: 3\.\d+$", c)}
    assert project["requires-python"] == ">=" + min(named, key=lambda name: int(name.split(".")[1]))
    workflow = (ROOT / ".github/workflows/test.yml").read_text()
    (matrix,) = re.findall(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)
    assert set(re.findall(r"3\.\d+", matrix)) == named


# --- dependencies ---


def test_developer_tools_are_pinned_within_their_ranges():
    parse = pytest.importorskip("packaging.requirements").Requirement
    pins = {canonical(name): pin for name, pin in PINS.items()}
    for line in {line for name in ("build", "dev", "release") for line in requirements.requirements(name)}:
        wanted = parse(line)
        assert canonical(wanted.name) in pins, f"{wanted.name} is not pinned; run: make pin"
        assert pins[canonical(wanted.name)] in wanted.specifier, f"{line}; run: make pin"


def test_dependencies_are_used_declared_and_free():
    pytest.importorskip("auditwheel", reason="needs all that developers install")
    assert dependencies.check_offline() == []


def test_a_dependency_that_is_not_declared_or_not_used_is_found(monkeypatch):
    monkeypatch.setattr(dependencies, "imported", lambda: {"numpy", "hypothesis"})
    found = dependencies.check_offline()
    assert "hypothesis is imported, but no extra declares it" in found
    assert "pyarrow is declared, but never imported" in found
    assert not any(line.startswith(("numpy", "pandas")) for line in found)


def test_a_licence_that_is_not_known_is_found(monkeypatch):
    monkeypatch.setattr(dependencies, "licence", lambda _: "GPL-3.0-only")
    assert any(line.startswith("numpy has the licence 'GPL") for line in dependencies.check_offline())


# --- workflows and hooks ---


def test_workflows_are_valid():
    pytest.importorskip("check_jsonschema")
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    for schema, pattern in (("github-workflows", ".github/workflows/*.yml"), ("dependabot", ".github/*.yml")):
        files = sorted(map(str, ROOT.glob(pattern)))
        done = subprocess.run(
            [*check, f"vendor.{schema}", *files], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def test_workflows_call_what_is_there():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        text = path.read_text()
        for line in re.findall(r"run: make (.*)", text):
            used = {word for word in line.split() if re.fullmatch("[a-z-]+", word)}
            assert used <= targets, f"{path.name}: {used - targets}"
        for name in re.findall(r"(?<!\S)(tools/\w+\.\w+|\.ci/\w+)", text):
            assert (ROOT / name).exists(), name
        for action in re.findall(r"uses: (\S+)", text):
            pinned = action.startswith("./") or re.search(r"@(v\d+|release/v\d+|[0-9a-f]{40})$", action)
            assert pinned, action
        assert not re.search(r"secrets\.", text), f"{path.name}: a release needs no secret"


def test_hooks_are_the_tools_of_the_environment():
    yaml = pytest.importorskip("ruamel.yaml").YAML(typ="safe")
    (repo,) = yaml.load(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repo["repo"] == "local"
    pins = {canonical(name) for name in PINS}
    for hook in repo["hooks"]:
        program = Path(hook["entry"].split()[0])
        assert program.parent == Path(".venv/bin")
        assert program.name == "python" or program.name in pins
