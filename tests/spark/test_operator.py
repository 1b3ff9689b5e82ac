"""The stateful operator without Spark: tasks die anywhere, state rolls back, caches are old, torn or gone.

Whatever happens on the way, the attempts that are committed give what brute force gives, micro-batch by
micro-batch, and the state is that of the rows alive. SLIDEJOIN_TESTS=long plays more of it.
"""

import itertools
import json
import os
import pickle
import random
import secrets
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.join_type import JOIN_TYPES
from slidejoin.keys import bind
from slidejoin.snapshot import binary
from slidejoin.spec import join_spec

pytest.importorskip("pyspark")

from fault.spark_state import Died, Store
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from slidejoin.spark import kept, operator, recipe, tasks
from slidejoin.spark.cache import LiveJoins
from slidejoin.spark.recipe import Recipe
from slidejoin.spark.route import Routing, group_ids, spark_hash

SEEDS = range(2000 if os.environ.get("SLIDEJOIN_TESTS") == "long" else 30)
HOWS = tuple(JOIN_TYPES)
PRESERVING = ("left", "full", "left_anti"), ("right", "full", "right_anti")
ONLY = {"left_semi": 0, "left_anti": 0, "right_semi": 1, "right_anti": 1}  # the side that comes out
SECOND = 10**6  # times are in µs
START = 1_700_000_000 * SECOND
BIG = 2**30
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("s", pa.string()), ("id", pa.int64())]
)
ON = {  # predicates with the same in plain Python
    "band": (sj.band("k", within=3), lambda a, b: abs(a["k"] - b["k"]) <= 3),
    "equal+band": (
        sj.equal("s") & sj.band("k", within=20),
        lambda a, b: a["s"] == b["s"] and abs(a["k"] - b["k"]) <= 20,
    ),
    "equal": (sj.equal("s") & sj.equal("k"), lambda a, b: (a["s"], a["k"]) == (b["s"], b["k"])),
    "less": (sj.less("k"), lambda a, b: a["k"] < b["k"]),
}


@dataclass
class Case:
    """A join, and micro-batches for it: (watermark in ms, rows of both sides)."""

    on: str = "band"
    how: str = "inner"
    before: int = 3  # s
    after: int = 2
    late: bool = False
    groups: int = 2
    cache: tuple[int, int] = (BIG, BIG)
    batches: list = field(default_factory=list)
    schema: pa.Schema = SCHEMA

    @property
    def reach(self):
        return self.after * SECOND, self.before * SECOND

    def usable(self, row):
        """Whether a row can match at all."""
        columns = ("k", "s") if "equal" in self.on else ("k",)
        return row["ts"] is not None and all(row[name] is not None for name in columns)

    def recipe(self):
        window = sj.interval(f"{self.before}s", f"{self.after}s", time="ts", late="return")
        routings = []
        for how in {"full": ("left", "right")}.get(self.how, (self.how,)):
            bound = bind(join_spec(ON[self.on][0], window, how, order="none"), self.schema, self.schema)
            routings.append(Routing(bound, how, self.groups))
        return Recipe(
            name=secrets.token_hex(8),
            routings=tuple(routings),
            schemas=(self.schema, self.schema),
            ids=tuple(group_ids(self.groups * len(routings), self.groups)),
            partitions=self.groups,
            late=self.late,
            cache=self.cache,
        )


def drawn(rng):
    """A random case, with disorder, late rows, nulls, pauses of a side and of both, a window that empties."""
    before, after = rng.choice([(3, 2), (3, 2), (0, 0), (2, -1), (-1, 4), (60, 60)])
    case = Case(
        on=rng.choice([*ON, "band"]),
        how=rng.choice([*HOWS, "inner"]),
        before=before,
        after=after,
        late=rng.random() < 0.3,
        groups=rng.choice([1, 2, 5]),
        cache=rng.choice([(BIG, BIG)] * 3 + [(0, BIG), (BIG, 0), (0, 0), (20_000, 6_000)]),
        batches=[],
    )
    now, watermark, newest, id_, keys = 0, 0, [None, None], 0, rng.choice([5, 60, 10**6])
    for _ in range(rng.randrange(4, 14)):
        sides = ([], [])
        quiet = rng.random()
        now += rng.choice([1, 2, 4, 30])
        for rows in sides:
            for _ in range(0 if quiet < 0.1 or (quiet < 0.3 and rng.random() < 0.5) else rng.randrange(30)):
                ts = START + now * SECOND + rng.randrange(-6 * SECOND, SECOND)
                row = {
                    "ts": None if rng.random() < 0.03 else ts,
                    "k": None if rng.random() < 0.05 else rng.randrange(keys),
                    "s": None if rng.random() < 0.05 else rng.choice("abc"),
                    "id": id_,
                }
                id_ += 1
                rows.append(row)
        case.batches.append((watermark, *sides))
        for side, rows in enumerate(sides):
            newest[side] = max([row["ts"] for row in rows if row["ts"]] + [newest[side] or 0])
        watermark = max(watermark, (min(newest) - 2 * SECOND) // 1000) if all(newest) else watermark
    case.batches.append((max(watermark, 1), [], []))
    case.batches.append((max(watermark, START // 1000) + 10**6, [], []))  # all is forgotten
    return case


def expected(case):
    """By brute force, for each micro-batch: results as (left id, right id), and late rows."""
    holds, reach = ON[case.on][1], case.reach
    results = [Counter() for _ in case.batches]
    seen, matched = ([], []), (set(), set())
    for number, (watermark, *sides) in enumerate(case.batches):
        for side, rows in enumerate(sides):
            for values in rows:
                row = {**values, "batch": number, "usable": case.usable(values)}
                if is_late(row, watermark):
                    if case.late and ONLY.get(case.how, side) == side:
                        results[number]["late", side, row["id"]] += 1
                    continue
                for other in seen[1 - side] if row["usable"] else ():
                    left, right = (row, other) if side == 0 else (other, row)
                    if not other["usable"] or not holds(left, right):
                        continue
                    if -case.before * SECOND <= right["ts"] - left["ts"] <= case.after * SECOND:
                        first = left["id"] not in matched[0], right["id"] not in matched[1]
                        matched[0].add(left["id"])
                        matched[1].add(right["id"])
                        if case.how == "left_semi":
                            results[number][left["id"], None] += first[0]
                        elif case.how == "right_semi":
                            results[number][None, right["id"]] += first[1]
                        elif case.how not in ONLY:
                            results[number][left["id"], right["id"]] += 1
                seen[side].append(row)
    preserved = [side for side, hows in enumerate(PRESERVING) if case.how in hows]
    for side in preserved:
        for row in seen[side]:
            if row["id"] not in matched[side]:
                when = final(case, row, reach[side])
                results[when][(row["id"], None) if side == 0 else (None, row["id"])] += 1
    return [+counter for counter in results]


def is_late(row, watermark):
    return watermark > 0 and row["ts"] is not None and row["ts"] <= watermark * 1000


def final(case, row, reach):
    """The micro-batch in which a row without a partner comes out."""
    if not row["usable"]:
        return row["batch"]
    gone = (n for n, (watermark, *_) in enumerate(case.batches) if row["ts"] + reach <= watermark * 1000)
    return max(row["batch"], next(gone))


# --- a cluster ---


class Worker:
    """A Python worker process on one of two hosts."""

    def __init__(self, root):
        self.root = root
        self.joins = LiveJoins()


class Cluster:
    """Workers, state stores by shuffle partition, and everything that goes wrong with them."""

    def __init__(self, recipe, root, rng, monkeypatch):
        self.recipe, self.text, self.rng, self._patch = recipe, recipe.to_json(), rng, monkeypatch
        self.stores = [Store() for _ in range(recipe.partitions)]
        self.roots = [root / "a", root / "b"]
        for path in self.roots:
            path.mkdir(parents=True)
        self.workers = [Worker(rng.choice(self.roots)) for _ in range(3)]
        self.old_files = {}
        self.origins = Counter()

    def batch(self, watermark, sides):
        """One micro-batch, until it is committed; its results."""
        routed = self.routed(sides)
        self.touched = {key for part in routed for key in part}
        while True:
            done = [self.task(store, routed[number], watermark) for number, store in enumerate(self.stores)]
            if (
                self.rng.random() < 0.15
            ):  # the driver dies before it writes the commit, and the workers with it
                if self.rng.random() < 0.5:
                    self.workers = [Worker(worker.root) for worker in self.workers]
                continue
            before = [Store() for _ in self.stores]
            for old, store, (handle, _) in zip(before, self.stores, done, strict=True):
                old.groups = store.groups
                store.commit(handle)
            if self.rng.random() < 0.1:  # a task that was given up goes on, and ends when nobody wants it
                number = self.rng.randrange(len(before))
                self.attempt(self.rng.choice(self.workers), before[number], routed[number], watermark)
            return [row for _, rows in done for row in rows]

    def routed(self, sides):
        """The rows of a micro-batch as Spark hands them to the tasks: by shuffle partition and key."""
        found = [{} for _ in self.stores]
        for side, rows in enumerate(sides):
            parts = [rows[: len(rows) // 2], rows[len(rows) // 2 :]] if rows else []
            schema = self.recipe.schemas[side]
            batches = [pa.RecordBatch.from_pylist(part, schema=schema) for part in parts if part]
            for routed in tasks.route(self.text, side, iter(batches)) if rows else ():
                frame = routed.to_pandas(use_threads=False)
                for key, part in frame.groupby("group"):
                    found[spark_hash(int(key)) % len(found)].setdefault(int(key), []).append(part)
        return found

    def task(self, store, rows, watermark):
        """Attempts of a task until one ends well: its state, and its results."""
        while True:
            self.spoil()
            number = self.rng.randrange(len(self.workers))
            dies = self.rng.randrange(1, 50) if self.rng.random() < 0.4 else None
            try:
                return self.attempt(self.workers[number], store, rows, watermark, dies)
            except Died:
                if self.rng.random() < 0.5:  # the process is gone, too
                    self.workers[number] = Worker(self.rng.choice(self.roots))

    def attempt(self, worker, store, rows, watermark, dies=None):
        self._patch.setattr(operator, "_joins", worker.joins)
        self._patch.setattr(tempfile, "tempdir", str(worker.root))
        old = self.rng.random() < 0.5
        handle = store.task(dies, old)
        processor = pickle.loads(pickle.dumps(operator.JoinGroups(self.text)))
        processor.init(handle)
        times, frames = TimerValues(0, watermark), []

        def take(results):
            for frame in results:
                handle.step()
                frames.append(frame)

        for key, parts in sorted(rows.items()):
            handle.key = key
            given = [part.astype({"group": "int32", "side": "int8"}) if old else part for part in parts]
            take(processor.handleInputRows(handle.given_key(), iter(given), times))
        expired = [
            (at, key) for key, group in handle.groups.items() for at in group.timers if at <= watermark
        ]
        for at, key in sorted(expired):
            handle.key = key
            info = ExpiredTimerInfo(at)
            take(
                processor.handleExpiredTimer(
                    key=handle.given_key(timer=True), timerValues=times, expiredTimerInfo=info
                )
            )
            handle.deleteTimer(at)
        processor.close()
        handle.step()
        return handle, frames

    def rows(self, frames):
        """The rows of results, and the figures summed up."""
        found, figures = [], Counter()
        self.ran = [int(frame["group_number"].iloc[0]) for frame in frames if frame["groups"].sum()]
        for frame in frames:
            assert list(frame.columns) == [name.split()[0] for name in operator.RESULTS.split(", ")]
            batch = pa.RecordBatch.from_pandas(frame[["data"]], pa.schema([("data", pa.binary())]))
            for part in tasks.unpack(self.text, iter([batch])):
                found += part.to_pylist()
            for name in operator.FIGURES:
                figures[name] += int(frame[name].sum())
        self.origins.update({name: figures[name] for name in ("live_hits", "file_hits", "restores")})
        return found, figures

    def spoil(self):
        """Do something to the files of a host."""
        rng = self.rng
        files = [path for root in self.roots for path in root.glob("*/*/*/*") if path.is_file()]
        for path in files:
            self.old_files.setdefault(path.name, (path, path.read_bytes()))
        if not files or rng.random() < 0.5:
            return
        path, other = rng.choice(files), rng.choice(files)
        data = path.read_bytes()
        what = rng.randrange(9)
        if what == 0:
            path.unlink()
        elif what == 1:
            path.write_bytes(data[: rng.randrange(len(data) + 1)])
        elif what == 2:
            at = rng.randrange(len(data)) if data else 0
            path.write_bytes(
                data[:at] + bytes([(data[at] if data else 0) ^ 1 << rng.randrange(8)]) + data[at + 1 :]
            )
        elif what == 3:
            path.write_bytes(other.read_bytes())
        elif what == 4:
            shutil.rmtree(path.parent)
        elif what == 5:  # one of long ago is back
            place, was = rng.choice(list(self.old_files.values()))
            if place.parent.is_dir() and not place.is_dir():
                place.write_bytes(was)
        elif what == 6:
            path.unlink()
            path.mkdir()
        elif what == 7:
            shutil.rmtree(path.parent)
            path.parent.write_bytes(b"no directory")
        elif not (left := path.parent / "left-behind.tmp").is_dir():
            left.write_bytes(data)


def ids(row, case):
    """A result as brute force writes it."""
    if case.late and row["late"] is not None:
        side = ("left", "right").index(row["late"])
        return "late", side, row["id" if case.how in ONLY else ("id", "id_right")[side]]
    if case.how in ONLY:
        return (None, row["id"]) if ONLY[case.how] else (row["id"], None)
    return row["id"], row["id_right"]


def check_state(cluster, case, number, watermark):
    """Heads name the chunks that are there, have the rows alive, and a timer is set for what is left."""
    alive = rows_alive(cluster.recipe, case, number)
    numbers = {id_: group for group, id_ in enumerate(cluster.recipe.ids)}
    for store in cluster.stores:
        heads = store.heads()
        assert heads.keys() >= {key for key in store.groups if store.chunks(key)}
        for key, group in store.groups.items():
            assert all(at > watermark for at in group.timers)
            assert len(group.timers) <= 4
            if key not in heads:
                continue
            handle = store.task()
            handle.key = key
            found = kept.GroupState(handle)
            head = found.read()
            assert json.loads(head.meaning) == json.loads(json.dumps(cluster.recipe.meaning))
            if key == tasks.GUARD:
                continue
            document = binary.decode(head.head)
            assert {name.rpartition("/")[0] for name in store.chunks(key)} == set(document.meta["chunks"])
            join = sj.WindowJoin.restore(head.head, chunks=found.chunks(head))
            join.check()
            stats = join.stats
            stored = stats["stored_left"], stats["stored_right"]
            assert group.timers, "nobody would wake it"
            wanted = alive.get(numbers[key], (0, 0))
            if case.how != "inner" or key in cluster.touched:
                assert stored == wanted
                assert sum(wanted)
            else:
                assert all(a >= b for a, b in zip(stored, wanted, strict=True))
                assert last_expiry(cluster.recipe, case, number, numbers[key]) > watermark * 1000
        for id_, group in numbers.items():
            if sum(alive.get(group, (0, 0))) and spark_hash(id_) % len(
                cluster.stores
            ) == cluster.stores.index(store):
                assert id_ in heads


def rows_alive(recipe, case, number):
    """How many rows of both sides each group should have after a micro-batch."""
    now, alive = case.batches[number][0], {}
    for watermark, *sides in case.batches[: number + 1]:
        for side, rows in enumerate(sides):
            left = [
                row
                for row in rows
                if case.usable(row)
                and not is_late(row, watermark)
                and not (now > 0 and row["ts"] + case.reach[side] <= now * 1000)
            ]
            if left:
                table = pa.Table.from_pylist(left, schema=SCHEMA)
                for half, routing in enumerate(recipe.routings):
                    for group in routing.route(table, side).groups.tolist():
                        counts = alive.setdefault(group + half * case.groups, [0, 0])
                        counts[side] += 1
    return {group: tuple(counts) for group, counts in alive.items()}


def last_expiry(recipe, case, number, group):
    """When the last row that a group was given leaves the window, in µs."""
    last = 0
    for _, *sides in case.batches[: number + 1]:
        for side, rows in enumerate(sides):
            timed = [row for row in rows if row["ts"] is not None]
            if timed:
                routed = recipe.routing.route(pa.Table.from_pylist(timed, schema=SCHEMA), side)
                mine = routed.rows[routed.groups == group].tolist()
                last = max([last, *(timed[row]["ts"] + case.reach[side] for row in mine)])
    return last


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_dies_or_is_spoilt(seed, tmp_path, monkeypatch):
    rng = random.Random(seed)
    case = drawn(rng)
    wanted = expected(case)
    cluster = Cluster(case.recipe(), tmp_path, rng, monkeypatch)
    for number, (watermark, *sides) in enumerate(case.batches):
        rows, figures = cluster.rows(cluster.batch(watermark, sides))
        assert Counter(ids(row, case) for row in rows) == wanted[number]
        assert figures["results"] == len(rows)
        late = [sum(is_late(row, watermark) for row in rows) for rows in sides]
        assert [figures["late_left"], figures["late_right"]] == late
        assert [figures["rows_left"], figures["rows_right"]] == [len(rows) for rows in sides]
        assert len(set(cluster.ran)) == len(cluster.ran), "no group runs twice in a micro-batch"
        check_state(cluster, case, number, watermark)
    for store in cluster.stores:
        assert store.groups.keys() <= {tasks.GUARD}


# --- one thing at a time ---


class Calm(Cluster):
    """A cluster in which nothing happens but what a test does."""

    def __init__(self, case, root, monkeypatch):
        super().__init__(case.recipe(), root, random.Random(0), monkeypatch)
        self.workers = [Worker(self.roots[0]), Worker(self.roots[0]), Worker(self.roots[1])]

    def run(self, sides, watermark=0, worker=0, commit=True):
        """A micro-batch in one worker: rows of results, and figures."""
        frames = []
        for store, rows in zip(self.stores, self.routed(sides), strict=True):
            handle, found = self.attempt(self.workers[worker], store, rows, watermark)
            frames += found
            if commit:
                store.commit(handle)
        return self.rows(frames)

    def origin(self, *arguments, **options):
        """Where the join of the one group was found."""
        figures = self.run(*arguments, **options)[1]
        return [name for name in ("live_hits", "file_hits", "restores") if figures[name]]

    def files(self):
        return sorted(path for root in self.roots for path in root.glob("*/*/*/*"))


def some(start, count=40, keys=1000):
    """Rows of both sides, from a time in ms on."""
    return [
        [
            {
                "ts": START + (start + i) * 1000,
                "k": i * 37 % keys,
                "s": "abc"[i % 3],
                "id": 2 * (start + i) + side,
            }
            for i in range(count)
        ]
        for side in range(2)
    ]


def test_where_a_join_is_found(tmp_path, monkeypatch):
    cluster = Calm(Case(groups=1), tmp_path, monkeypatch)
    assert cluster.origin(some(0)) == []
    assert cluster.origin(some(100)) == ["live_hits"]
    assert cluster.origin(some(200), worker=1) == ["file_hits"]
    assert cluster.origin(some(300), worker=0) == ["file_hits"]  # its own is old
    assert cluster.origin(some(400), worker=0) == ["live_hits"]
    assert cluster.origin(some(500), worker=2) == ["restores"]  # another host
    assert cluster.origin(some(600), worker=2) == ["live_hits"]
    assert len(cluster.workers[0].joins) == 1


@pytest.mark.parametrize("how", ["inner", "left"])
def test_an_attempt_that_was_not_committed_leaves_nothing_that_looks_right(tmp_path, monkeypatch, how):
    """Its rows are in the live join and in the files, under names that the state does not have."""
    cluster = Calm(Case(groups=1, how=how), tmp_path, monkeypatch)
    cluster.run(some(0))
    for _ in range(3):
        lost = cluster.run(some(100), commit=False)[0]
        assert len(cluster.workers[0].joins) == 1, "it has left its join behind"
    assert cluster.origin(some(100), commit=False) == ["file_hits"]
    found = cluster.run(some(100))[0]
    assert Counter(map(str, found)) == Counter(map(str, lost))
    stored = cluster.run([[], [some(200)[1][0]]])[1]["stored"]
    assert stored == 161


def damaged(path, how):
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "torn":
        path.write_bytes(data[: len(data) // 2])
    elif how == "longer":
        path.write_bytes(data + b"\0" * 8)
    elif how == "a directory":
        path.unlink()
        path.mkdir()
    elif how == "a dangling link":
        path.unlink()
        path.symlink_to("nowhere")
    else:
        at = {"first byte": 0, "last byte": len(data) - 1, "a row": len(data) * 3 // 4}[how]
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])


@pytest.mark.parametrize(
    "how",
    ["gone", "empty", "torn", "longer", "a directory", "a dangling link", "first byte", "last byte", "a row"],
)
def test_a_damaged_file_is_as_good_as_none(tmp_path, monkeypatch, how):
    cluster, calm = (Calm(Case(groups=1), tmp_path / name, monkeypatch) for name in "ab")
    for start in (0, 100):
        cluster.run(some(start))
        calm.run(some(start))
    damaged(cluster.files()[-1], how)
    found, figures = cluster.run(some(200), worker=1)
    assert (figures["file_hits"], figures["restores"]) == (0, 1)
    assert Counter(map(str, found)) == Counter(map(str, calm.run(some(200))[0]))
    assert cluster.origin(some(300), worker=0) == ["restores"]  # what was damaged is not written again
    assert cluster.run(some(400))[1]["stored"] == 400


def test_files_of_another_query_or_time_under_the_right_names(tmp_path, monkeypatch):
    cluster, other = (Calm(Case(groups=1), tmp_path / name, monkeypatch) for name in "ab")
    cluster.run(some(0))
    other.run(some(0, keys=7))
    for mine, theirs in zip(cluster.files(), other.files(), strict=True):
        mine.write_bytes(theirs.read_bytes())
    assert cluster.origin(some(100), worker=1) == ["restores"]


def test_a_chunk_that_the_checkpoint_lacks(tmp_path, monkeypatch):
    cluster = Calm(Case(groups=1), tmp_path, monkeypatch)
    cluster.run(some(0))
    (key,) = cluster.recipe.ids
    chunks = cluster.stores[0].groups[key].maps["chunks"]
    del chunks[min(chunks)]
    with pytest.raises(sj.StateError, match="missing"):
        cluster.run(some(100), worker=2)


def test_two_queries_of_one_call_share_nothing(tmp_path, monkeypatch):
    """One DataFrame, two checkpoints: Spark's id of the query tells them apart."""
    first, second = (Calm(Case(groups=1), tmp_path / name, monkeypatch) for name in "ab")
    second.recipe, second.text, second.workers = first.recipe, first.text, first.workers
    context = SimpleNamespace(partitionId=lambda: 0)
    monkeypatch.setattr(operator, "TaskContext", SimpleNamespace(get=lambda: context))
    monkeypatch.setattr(operator, "_local_directory", lambda: None)  # a session of other tests has one
    for start, (cluster, query) in itertools.product((0, 100, 200), ((first, "q1"), (second, "q2"))):
        context.getLocalProperty = {"sql.streaming.queryId": query}.get
        assert cluster.origin(some(start)) == (["live_hits"] if start else [])
    assert len(first.workers[0].joins) == 2
    assert len({path.parent for path in first.files()}) == 2


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(("side", "reach"), [(0, 1), (1, 10)])
def test_a_group_without_input_forgets_in_time(tmp_path, monkeypatch, how, side, reach):
    """A left row is gone when ts + after is reached, a right one when ts + before is, to the millisecond."""
    cluster = Calm(Case(groups=1, how=how, before=10, after=1), tmp_path, monkeypatch)
    sides = [[], []]
    sides[side] = [{"ts": START - 999, "k": 7, "s": "a", "id": 1}]
    cluster.run(sides)
    gone = START // 1000 + 1000 * reach
    for watermark in (1, START // 1000 + 1, gone - 1):
        assert cluster.run([[], []], watermark)[0] == []
        assert any(cluster.stores[0].chunks(id_) for id_ in cluster.recipe.ids)
    found = cluster.run([[], []], gone)[0]
    assert cluster.stores[0].groups.keys() == {tasks.GUARD}
    assert len(found) == (how in PRESERVING[side])


def test_state_stays_small_when_keys_never_come_back(tmp_path, monkeypatch):
    """Ever-increasing keys: groups are left behind, and their state goes; timers do not pile up."""
    case = Case(groups=4)
    for how in ("inner", "left"):
        cluster = Calm(replace(case, how=how), tmp_path / how, monkeypatch)
        sizes = []
        for number in range(24):
            sides = some(1000 * number, count=10)
            for row in sides[0] + sides[1]:
                row["k"] += 10**6 * number
            cluster.run(sides, watermark=START // 1000 + 1000 * number - 500, worker=number % 2)
            sizes.append(
                sum(
                    len(value) + len(store.chunks(key))
                    for store in cluster.stores
                    for key in store.groups
                    for value in (*store.chunks(key).values(), store.heads().get(key, ("", b""))[-1])
                )
            )
        assert max(sizes[12:]) <= 1.5 * max(sizes[4:12])
        cluster.run([[], []], watermark=START // 1000 + 10**6)
        assert all(store.groups.keys() <= {tasks.GUARD} for store in cluster.stores)
        assert not cluster.files()


# --- a checkpoint of another join ---

WIDER = SCHEMA.append(pa.field("more", pa.int64()))
NARROWER = SCHEMA.set(3, pa.field("id", pa.int32()))
RENAMED = SCHEMA.set(3, pa.field("number", pa.int64()))
OTHERS = {
    "predicate": ({"on": "less"}, "join"),
    "before": ({"before": 4}, "window"),
    "after": ({"after": 1}, "window"),
    "inner for left": ({"how": "inner"}, "how"),
    "anti for left": ({"how": "left_anti"}, "how"),
    "full for left": ({"how": "full"}, "how"),
    "one group": ({"groups": 1}, "groups"),
    "more groups": ({"groups": 3}, "groups"),
    "more columns": ({"schema": WIDER}, "left columns"),
    "another type": ({"schema": NARROWER}, "left columns"),
    "another name": ({"schema": RENAMED}, "left columns"),
}


@pytest.mark.parametrize("has", ["data", "timers"])
@pytest.mark.parametrize("change", OTHERS)
def test_every_task_refuses_another_join(tmp_path, monkeypatch, change, has):
    """Whichever task Spark reports first: the same error, also in a micro-batch that has timers alone."""
    case = Case(how="left")
    before = Calm(case, tmp_path / "a", monkeypatch)
    before.run(some(0))
    options, says = OTHERS[change]
    after = Calm(replace(case, **options), tmp_path / "b", monkeypatch)
    sides, watermark = (some(1000), 0) if has == "data" else ([[], []], START // 1000 + 10**5)
    for row in sides[0] + sides[1]:
        row["number"] = row["id"]
    rows = {}
    for part in after.routed(sides):
        rows.update(part)
    refused = []
    for number, store in enumerate(before.stores):  # Spark keeps the checkpoint's number of partitions
        mine = {key: frames for key, frames in rows.items() if spark_hash(key) % len(before.stores) == number}
        try:
            after.attempt(after.workers[0], store, mine, watermark)
        except sj.Error as error:
            refused.append(error)
    assert refused
    for error in refused:
        assert isinstance(error, sj.StateError)
        assert says in str(error)
        assert "checkpointLocation" in str(error) or "partitions=2" in str(error)


def test_a_checkpoint_without_rows_is_of_its_join_still(tmp_path, monkeypatch):
    before = Calm(Case(), tmp_path / "a", monkeypatch)
    before.run(some(0))
    before.run([[], []], watermark=START // 1000 + 10**5)
    assert {key for store in before.stores for key in store.groups} == {tasks.GUARD}
    after = Calm(Case(after=1), tmp_path / "b", monkeypatch)
    after.stores = before.stores
    with pytest.raises(sj.StateError, match="window"):
        after.run(some(1000))


def test_a_checkpoint_of_another_version(tmp_path, monkeypatch):
    before = Calm(Case(), tmp_path / "a", monkeypatch)
    before.run(some(0))
    monkeypatch.setattr(recipe, "VERSION", recipe.VERSION + 1)
    with pytest.raises(sj.StateError, match=r"state of version 1, this slidejoin writes version 2"):
        before.run(some(1000))
    monkeypatch.undo()
    assert before.run(some(1000))[0]
