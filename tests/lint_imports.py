"""The import-direction check: each module may import only what stands below it.

Run by `make lint`. Dependencies point one way, from the command line down to the native core, and the
reference imports nothing of ours.
"""

import ast
import pathlib
import sys

PACKAGE = pathlib.Path(__file__).parent.parent / "src" / "slidejoin"

# Lower layers first; a module may import modules of the lower layers and of its own.
LAYERS = [
    {"atomic_file", "cores", "errors", "log", "stats", "_core", "reference"},
    {"isa", "join_type", "sizes", "spill", "window"},
    {"index", "limits"},
    {"model"},
    {"native", "predicate"},
    {"spec"},
    {"arrays", "keys", "column_blocks", "column_store", "source", "ranges"},
    {"columns"},
    {"numeric", "order", "indexed", "result"},
    {"bound_join", "cluster", "explain", "sorted_runs", "table_join"},
    {"meter", "progress"},
    {"capacity"},
    {"live"},
    {"physical_streams"},
    {"sampling"},
    {"metrics"},
    {"snapshot"},
    {"chunks", "saved_join"},
    {"drive"},
    {"window_join"},
    {"collector", "page"},
    {"__init__"},
    {"testing", "demo", "plan", "run", "spark"},
    {"calibration"},
    {"cli"},
    {"__main__"},
]
ALONE = {"atomic_file", "cores", "errors", "reference"}


def imported(tree: ast.Module) -> set[str]:
    """Modules of the package that a module imports, by their first name below the package."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                sys.exit(f"relative import in line {node.lineno}; write it out")
            module = node.module or ""
            names |= {f"{module}.{alias.name}" for alias in node.names} if module == "slidejoin" else {module}
    modules = {name for layer in LAYERS for name in layer}
    return {
        parts[1] if len(parts) > 1 and parts[1] in modules else "__init__"
        for parts in (name.split(".") for name in names)
        if parts[0] == "slidejoin"
    }


def main() -> None:
    """Report every import that points upwards."""
    layer_of = {name: i for i, layer in enumerate(LAYERS) for name in layer}
    wrong: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        module = relative.parts[0].removesuffix(".py")
        if module not in layer_of:
            wrong.append(f"{relative}: not in a layer of tests/lint_imports.py")
            continue
        for target in sorted(imported(ast.parse(path.read_text()))):
            if target == module:
                continue
            if module in ALONE or layer_of[target] > layer_of[module]:
                wrong.append(f"{relative}: imports {target}, which stands above it")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
