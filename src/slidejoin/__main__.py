"""``python -m slidejoin`` is the ``slidejoin`` command."""

from slidejoin.cli import main

if __name__ == "__main__":
    main()
