"""The ``slidejoin`` command's entry point: says what to install where its libraries are missing."""

import sys


def main() -> None:
    """Run the command line; needs the ``cli`` extra."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        sys.stderr.write(f"the slidejoin command needs {error.name}: pip install 'slidejoin[cli]'\n")
        raise SystemExit(1) from None
    from slidejoin.cli.commands import app

    app()
