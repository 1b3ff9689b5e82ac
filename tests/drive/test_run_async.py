"""join.run_async(): async and plain sources, cancelling, closing, errors; no task and no thread is left."""

import asyncio
import gc
import time

import pytest
from drive.streams import ON, Closing, chunked, eventually, merged, pushed, rows, threads

import slidejoin as sj

WITHIN = sj.within(5, time="ts")
LEFT, RIGHT = rows(50), rows(40, 1)
EXPECTED = pushed(sj.WindowJoin(ON, WITHIN, order="full"), merged(LEFT, RIGHT))


def run(main):
    """Run a coroutine; nothing of it may be left."""

    async def guarded():
        result = await asyncio.wait_for(main, 30)
        gc.collect()
        await asyncio.sleep(0)
        left = [task.get_name() for task in asyncio.all_tasks() if "slidejoin" in task.get_name()]
        assert left == []
        return result

    found = asyncio.run(guarded())
    assert threads() == []
    return found


async def feed(items, pause=None):
    for item in items:
        if pause is not None:
            await asyncio.sleep(pause)
        yield item


async def collected(results):
    return sj.concat([out async for out in results]).to_pylist()


@pytest.mark.parametrize("pause", [None, 0])
@pytest.mark.parametrize("right", ["async", "plain"])
def test_async_and_plain_sources(pause, right):
    async def main():
        join = sj.WindowJoin(ON, WITHIN, order="full")
        second = feed(chunked(RIGHT, [6, 1])) if right == "async" else chunked(RIGHT, [6, 1])
        results = join.run_async(left=feed(LEFT, pause), right=second, max_rows=7)
        assert await collected(results) == EXPECTED
        assert results.offsets == {"left": 50, "right": 40}

    run(main())


def test_the_loop_goes_on_while_a_run_waits_and_a_batch_is_joined_after_max_delay():
    async def main():
        gate = asyncio.Event()

        async def right():
            yield {"k": 0, "v": 0}
            await gate.wait()

        join = sj.WindowJoin(ON, 10)
        results = join.run_async(left=feed([{"k": 0, "v": 0}]), right=right(), max_delay="1ms")
        assert (await anext(results)).num_rows == 1
        gate.set()
        assert [out async for out in results] == []

    run(main())


def test_stop_and_close():
    async def main():
        async def endless():
            n = 0
            while True:
                yield {"k": 0, "v": n % 3}
                n += 1
                await asyncio.sleep(0)

        for end in ("stop", "aclose", "with", "event"):
            event = asyncio.Event()
            join = sj.WindowJoin(ON, 10)
            stop = event if end == "event" else None
            results = join.run_async(left=endless(), right=endless(), max_rows=10, stop=stop)
            await anext(results)
            if end == "stop":
                results.stop()
            elif end == "event":
                event.set()
            elif end == "with":
                async with results:
                    pass
            else:
                await results.aclose()
            async for _ in results:
                pass
            assert results.offsets == {
                "left": join.stats["rows_left"],
                "right": join.stats["rows_right"],
            }

    run(main())


def test_cancelling_the_consumer_ends_the_readers_and_closes_the_sources():
    class Source:
        closed = 0

        def __aiter__(self):
            return self

        async def __anext__(self):
            await asyncio.sleep(1000)

        async def aclose(self):
            self.closed += 1

    async def main():
        source, plain = Source(), Closing(iter([{"k": 0, "v": 0}]))

        async def consume():
            async with sj.WindowJoin(ON, 10).run_async(left=source, right=plain) as results:
                async for _ in results:
                    pass

        task = asyncio.create_task(consume())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (source.closed, plain.closed) == (1, 1)

    run(main())


def test_an_error_of_a_source_names_the_side_and_comes_behind_the_results():
    async def broken():
        for row in LEFT[:20]:
            yield row
        raise OSError("the line is dead")

    async def main():
        join = sj.WindowJoin(ON, sj.rows(1000))
        results = join.run_async(left=feed(RIGHT), right=broken(), max_rows=8)
        found = 0
        with pytest.raises(OSError, match="the line is dead") as caught:  # noqa: PT012
            async for out in results:
                found += out.num_rows
        assert caught.value.__notes__ == ["raised by the right source of a run"]
        offsets = results.offsets
        assert offsets["right"] == 20
        known = sj.WindowJoin(ON, sj.rows(1000))
        known.push(left=RIGHT[: offsets["left"]])
        assert found == known.push(right=LEFT[:20]).num_rows
        assert join.push(right=LEFT[20:]).num_rows >= 0

    run(main())


def test_an_error_of_a_function_that_opens_a_source():
    def refused(_):
        raise ConnectionError("no broker")

    async def main():
        with pytest.raises(ConnectionError, match="no broker") as caught:
            await collected(sj.WindowJoin(ON, 10).run_async(left=feed(LEFT), right=refused))
        assert caught.value.__notes__ == ["raised by the right source of a run"]

    run(main())


def test_an_abandoned_run_is_closed_by_the_loop():
    async def main():
        source = feed(rows(10_000), 0)
        results = sj.WindowJoin(ON, 10).run_async(left=source, right=[{"k": 0, "v": 0}], max_delay="0ms")
        await anext(results)
        del results
        gc.collect()
        end = time.monotonic() + 5
        while any("slidejoin" in task.get_name() for task in asyncio.all_tasks()):
            assert time.monotonic() < end
            await asyncio.sleep(0.001)

    run(main())
    eventually(lambda: threads() == [])
