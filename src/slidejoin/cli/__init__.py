"""The ``slidejoin`` command's entry point: says what to install where its libraries are missing."""

import gc
import sys

import slidejoin


def main() -> None:
    """Run the command line; all but ``--version`` needs the ``cli`` extra."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"slidejoin {slidejoin.__version__}\n")
        return
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        sys.stderr.write(f"the slidejoin command needs {error.name}: pip install 'slidejoin[cli]'\n")
        raise SystemExit(1) from None
    gc.disable()  # the objects of modules stay; looking through them takes a third of the time to load them
    from slidejoin.cli.commands import app

    gc.freeze()
    gc.enable()
    app()
