"""Join two WebSocket feeds in an asyncio program; results come while the feeds go on.

A server on loopback sends readings of two kinds as JSON. The client joins readings of one sensor that are at
most half a second apart. Needs: pip install slidejoin websockets
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

import slidejoin as sj

READINGS = 500


async def send(connection: ServerConnection) -> None:
    """The server: readings of the kind that the path names."""
    assert connection.request is not None
    kind = connection.request.path.strip("/")
    for n in range(READINGS):
        ts = n * 100 + (30 if kind == "humidity" else 0)
        await connection.send(json.dumps({"ts": ts, "sensor": n % 5, kind: n % 17 * 1.5}))
        if n % 50 == 0:
            await asyncio.sleep(0.01)


async def feed(address: str, kind: str) -> AsyncIterator[dict[str, Any]]:
    """A source for run_async(): the rows of a connection, until the server closes it."""
    async with connect(f"{address}/{kind}") as connection:
        async for message in connection:
            yield json.loads(message)


async def main() -> None:
    """Start the server, and join what it sends."""
    async with serve(send, "127.0.0.1", 0) as server:
        address = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        window = sj.interval(before=500, after=500, time="ts", lateness=1000, idle_after="2s")
        join = sj.WindowJoin(sj.equal("sensor"), window)
        run = join.run_async(
            left=feed(address, "temperature"), right=feed(address, "humidity"), max_delay="5ms"
        )
        pairs = tables = 0
        async for out in run:
            pairs += out.num_rows
            tables += 1
        print(f"{pairs:,} pairs in {tables} tables; joined {run.offsets}")


asyncio.run(main())
