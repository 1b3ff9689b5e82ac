"""The Kafka recipe against a broker: produced while it runs, killed, started again."""

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import slidejoin as sj

RECIPE = Path(__file__).parents[2] / "examples" / "kafka_join.py"


def recipe():
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("kafka_join", RECIPE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def killed_and_resumed(broker, producer, folder, half=1500, kills=1):
    """Produce half, start the program, kill it, produce the rest, let it end: each match is there once."""
    kafka = recipe()
    output, state = folder / "matches.jsonl", folder / "join.state"
    command = [sys.executable, "-W", "error", RECIPE, "--broker", broker]
    # Rows are produced much faster than their times tell, so partitions are far apart in time.
    command += ["--output", output, "--state", state, "--lateness", str(10**9)]
    kafka.produce(producer, 0, half)
    for turn in range(kills):
        program = subprocess.Popen(command)
        end = time.monotonic() + 120
        while not (state.exists() and output.exists() and output.stat().st_size):
            assert program.poll() is None, "the program ended"
            assert time.monotonic() < end, "no snapshot in two minutes"
            time.sleep(0.02)
        kafka.produce(producer, half * (turn + 1), half)
        time.sleep(0.3)  # some of it is joined, and not in a snapshot
        program.kill()
        program.wait()
    with output.open("a") as file:
        file.write('{"torn')  # what a kill in a write leaves
    ended = subprocess.run([*command, "--until-end"], check=True, capture_output=True, text=True, timeout=120)
    count = half * (kills + 1)
    join = sj.WindowJoin(kafka.ON, sj.interval(2000, 2000, time="ts"))
    join.push(left=sent(kafka, "trades", count))
    expected = {
        (row["trade"], row["quote"]) for row in join.push(right=sent(kafka, "quotes", count)).to_pylist()
    }
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    found = [(row["trade"], row["quote"]) for row in lines]
    assert ended.stdout.strip() == f"{len(found):,} matches, 0 rows were late", ended.stdout
    assert len(found) == len(set(found))
    assert set(found) == expected


def sent(kafka, topic, count):
    """What the recipe's producer sends to a topic."""

    class Recorder:
        def __init__(self):
            self.rows = []

        def produce(self, name, value, partition):
            assert partition in (0, 1)
            if name == topic:
                self.rows.append(json.loads(value))

        def poll(self, seconds):
            pass

        def flush(self, seconds):
            pass

    recorder = Recorder()
    kafka.produce(recorder, 0, count)
    return recorder.rows
