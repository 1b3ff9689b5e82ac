"""The live page of a run: its address is printed, and it is there until the run ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from slidejoin.page.server import PageServer

LOOPBACK = "127.0.0.1"


@contextmanager
def live_page(port: int | None, serve: Callable[[int], PageServer], console: Console) -> Iterator[None]:
    """Serve a page meanwhile, if there is a port for it. A page that is open may read the end."""
    if port is None:
        yield
        return
    with serve(port) as page:
        console.print(f"live page: {page.url}", highlight=False, markup=False, soft_wrap=True)
        yield
        page.close(linger=True)
