"""Join two Kafka topics, and survive a kill -9: the offsets of all partitions are in the join's snapshot.

    python kafka_join.py                           a demonstration, with a broker inside this process
    python kafka_join.py --broker localhost:9092   topics "trades" and "quotes" of that broker

Rows are JSON objects with a symbol, a price and a time in milliseconds. Trades and quotes of one symbol match
if they are at most 2 seconds and 5 cents apart. Matches are written to a file as lines of JSON. Killed and
started again, the program goes on where its last snapshot was; every match is in the file once.
Needs: pip install slidejoin confluent-kafka
"""

import argparse
import json
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

import slidejoin as sj

ON = sj.equal("symbol") & sj.band("price", within=0.05)
BEFORE = AFTER = 2000  # milliseconds


def topic(broker: str, name: str, until_end: bool = False) -> Callable[[Any], Iterator[sj.Batch | None]]:
    """A source for run(): a function that reads a topic from an offset on.

    An offset is the next offset of every partition, such as {"0": 17, "1": 4}; 0 is the beginning. Partitions
    are merged by time as long as they have a backlog, so that one that is read faster makes no row late.
    """

    def rows(offset: Any) -> Iterator[sj.Batch | None]:
        consumer = Consumer(
            {
                "bootstrap.servers": broker,
                "group.id": "slidejoin",  # not used: the snapshot has the offsets
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            done: dict[str, int] = dict(offset or {})
            found = consumer.list_topics(name, timeout=10).topics[name]
            if found.error is not None:
                raise KafkaException(found.error)
            numbers = list(found.partitions)
            consumer.assign([TopicPartition(name, n, done.get(str(n), 0)) for n in numbers])
            backlog: dict[int, deque[tuple[dict[str, Any], int]]] = {n: deque() for n in numbers}
            at_end: set[int] = set()  # partitions that have nothing more at the moment
            while not until_end or len(at_end) < len(numbers) or any(backlog.values()):
                first = consumer.poll(0.1)
                for message in [first, *consumer.consume(200, timeout=0)] if first else []:
                    error = message.error()
                    if error is None:
                        at_end.discard(message.partition())
                        row = json.loads(message.value())
                        backlog[message.partition()].append((row, message.offset() + 1))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        at_end.add(message.partition())
                    else:
                        raise KafkaException(error)
                ready = []
                while all(backlog[n] or n in at_end for n in numbers) and any(backlog.values()):
                    next_one = min((n for n in numbers if backlog[n]), key=lambda n: backlog[n][0][0]["ts"])
                    row, done[str(next_one)] = backlog[next_one].popleft()
                    ready.append(row)
                # None says "nothing now": run() can then look whether it is to stop.
                yield sj.Batch(ready, offset=dict(done)) if ready else None
        finally:
            consumer.close()

    return rows


def join_topics(broker: str, output: Path, state: Path, until_end: bool = False, lateness: int = 1000) -> str:
    """Write matches to a file until the process is stopped; say how many it has."""
    join = sj.WindowJoin(ON, sj.interval(BEFORE, AFTER, time="ts", lateness=lateness))
    run = join.run(
        left=topic(broker, "trades", until_end),
        right=topic(broker, "quotes", until_end),
        max_rows=500,
        max_delay="10ms",
        snapshot=state,
        snapshot_every="1s",
        resume=True,
        finish=False,  # topics grow
    )
    cut(output, run.result_rows)  # matches after the last snapshot come again
    with run, output.open("a", encoding="utf-8") as file:
        for table in run:
            file.writelines(json.dumps(match) + "\n" for match in table.to_pylist())
            file.flush()
            os.fsync(file.fileno())  # before the next snapshot counts these matches
    late = join.stats["late_left"] + join.stats["late_right"]
    return f"{run.result_rows:,} matches, {late:,} rows were late"


def cut(file: Path, lines: int) -> None:
    """Keep the first lines of a file, in place: a process that is killed meanwhile loses none of them."""
    file.touch()
    with file.open("rb+") as output:
        kept = sum(1 for _ in zip(range(lines), iter(output.readline, b""), strict=False))
        if kept < lines:
            raise SystemExit(f"{file} has {kept:,} lines, not {lines:,}: it does not belong to the snapshot")
        output.truncate()


def produce(producer: Producer, first: int, count: int) -> None:
    """Send trades and quotes, some milliseconds apart."""
    for n in range(first, first + count):
        symbol = "ABCD"[n % 4]
        trade = {"trade": n, "symbol": symbol, "price": 10 + n * 37 % 101 / 100, "ts": n * 20}
        quote = {"quote": n, "symbol": symbol, "price": 10 + n * 53 % 101 / 100, "ts": n * 20 + 7}
        for name, row in (("trades", trade), ("quotes", quote)):
            producer.produce(name, value=json.dumps(row), partition=n % 2)
        producer.poll(0)
    producer.flush(10)


def demonstrate() -> None:
    """Join topics of a broker inside this process; end, and go on from the snapshot with what came since."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 3})  # librdkafka's own broker for tests
    address = next(iter(producer.list_topics(timeout=10).brokers.values()))
    broker = f"{address.host}:{address.port}"
    with tempfile.TemporaryDirectory() as folder:
        output, state = Path(folder, "matches.jsonl"), Path(folder, "join.state")
        for first in (0, 1000):
            produce(producer, first, 1000)
            print(join_topics(broker, output, state, until_end=True))
        lines = output.read_text(encoding="utf-8").splitlines()
        print(f"{len(set(lines)):,} different ones in the file, the first:")
        print(lines[0])


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="Join two Kafka topics.")
    parser.add_argument("--broker", help="host:port; without it, a demonstration")
    parser.add_argument("--output", type=Path, default=Path("matches.jsonl"))
    parser.add_argument("--state", type=Path, default=Path("join.state"), help="the file of the snapshots")
    parser.add_argument("--until-end", action="store_true", help="stop at the present end of the topics")
    parser.add_argument(
        "--lateness", type=int, default=1000, help="how far rows may be behind, in milliseconds"
    )
    given = parser.parse_args()
    if given.broker is None:
        demonstrate()
    else:
        print(join_topics(given.broker, given.output, given.state, given.until_end, given.lateness))


if __name__ == "__main__":
    main()
