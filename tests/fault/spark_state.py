"""Spark's state of a stateful operator, played by dictionaries: a task changes a copy, a commit keeps it.

Values come back as one version of PySpark or the other gives them: ``bytearray`` or ``bytes``, keys as NumPy
numbers, tuples or rows. Every call counts as a step; at a chosen one the task dies.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class Died(BaseException):
    """The end of a task: nobody may catch it, as nobody can catch a kill."""


@dataclass
class Group:
    """What the store has of one key."""

    values: dict[str, Any] = field(default_factory=dict)
    maps: dict[str, dict[Any, Any]] = field(default_factory=dict)
    timers: set[int] = field(default_factory=set)

    def __bool__(self):
        return bool(self.values or any(self.maps.values()) or self.timers)


class Store:
    """The state of one shuffle partition, as of its last commit."""

    def __init__(self):
        self.groups: dict[int, Group] = {}

    def task(self, deadline=None, old=False):
        """A handle on a copy; ``deadline`` is the step at which the task dies."""
        return Handle(copy.deepcopy(self.groups), deadline, old)

    def commit(self, handle):
        self.groups = {key: group for key, group in handle.groups.items() if group}

    def heads(self):
        return {key: group.values["head"] for key, group in self.groups.items() if "head" in group.values}

    def chunks(self, key):
        return {name: value for (name,), (value,) in self.groups[key].maps.get("chunks", {}).items()}


class Handle:
    """What ``StatefulProcessor.init`` gets; ``key`` is the group that Spark has made the current one."""

    def __init__(self, groups=None, deadline=None, old=False):
        self.groups = {} if groups is None else groups
        self.key = 0
        self.steps = 0
        self.deadline = deadline
        self.old = old

    @property
    def group(self):
        return self.groups.setdefault(self.key, Group())

    def step(self):
        self.steps += 1
        if self.deadline is not None and self.steps >= self.deadline:
            raise Died

    def plain(self, row):
        """A row as this version hands it over."""
        if row is None:
            return None
        return tuple(bytearray(v) if self.old and isinstance(v, bytes) else v for v in row)

    def given_key(self, timer=False):
        """The key as this version hands it over."""
        if self.old and not timer:
            return (np.int32(self.key),)
        return (self.key,)

    # --- Spark's names ---

    def getValueState(self, name, schema):  # noqa: N802, ARG002
        return _Value(self, name)

    def getMapState(self, name, key, value):  # noqa: N802, ARG002
        return _Map(self, name)

    def registerTimer(self, at):  # noqa: N802
        self.step()
        assert type(at) is int
        self.group.timers.add(at)
        self.step()

    def deleteTimer(self, at):  # noqa: N802
        self.step()
        self.group.timers.discard(at)


class _Value:
    def __init__(self, handle, name):
        self._handle, self._name = handle, name

    def get(self):
        self._handle.step()
        return self._handle.plain(self._handle.group.values.get(self._name))

    def update(self, row):
        self._handle.step()
        assert all(type(value) in (str, int, bytes) for value in row)
        self._handle.group.values[self._name] = tuple(row)
        self._handle.step()

    def clear(self):
        self._handle.step()
        self._handle.group.values.pop(self._name, None)
        self._handle.step()


class _Map:
    def __init__(self, handle, name):
        self._handle, self._name = handle, name

    @property
    def _map(self):
        return self._handle.group.maps.setdefault(self._name, {})

    def getValue(self, key):  # noqa: N802
        self._handle.step()
        return self._handle.plain(self._map.get(key))

    def updateValue(self, key, row):  # noqa: N802
        self._handle.step()
        assert type(key[0]) is str
        assert isinstance(row[0], bytes)
        self._map[key] = tuple(row)
        self._handle.step()

    def removeKey(self, key):  # noqa: N802
        self._handle.step()
        self._map.pop(key, None)
        self._handle.step()

    def clear(self):
        self._handle.step()
        self._map.clear()
        self._handle.step()
