"""Death of Spark's processes while they write state; Python runs this at its start where PYTHONPATH names it.

SLIDEJOIN_TEST_DEATHS is JSON: ``log`` (a file), ``deaths`` (a list of ``worker`` and ``jvm``) and ``chance``.
A Python worker that is about to give a file of the state its name, or has just done so, dies by that chance,
or the JVM that it works for does, and with it the driver, if that is its own: as often as the list says, in
its order. The log has a line for each death. A worker whose JVM is dead goes on for a while.
"""

import fcntl
import json
import os
import random
import signal
from pathlib import Path

_settings = json.loads(os.environ.get("SLIDEJOIN_TEST_DEATHS", "{}"))
_chance = random.SystemRandom()  # forked workers would all draw the same from another one
_replace = os.replace


def _parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _die(name):
    with open(_settings["log"], "a+", encoding="utf-8") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        log.seek(0)
        done = len(log.readlines())
        if done >= len(_settings["deaths"]):
            return
        kind = _settings["deaths"][done]
        log.write(f"{kind} {Path(name).suffix}\n")
    if kind == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    jvm = _parent(os.getppid())
    driver = _parent(jvm)
    os.kill(jvm, signal.SIGKILL)
    if "spark_driver" in Path(f"/proc/{driver}/cmdline").read_text():
        os.kill(driver, signal.SIGKILL)


def _dying_replace(old, new):
    dies = str(new).endswith((".begun", ".arrow", ".bits", ".head", ".figures"))
    dies = dies and _chance.random() < _settings["chance"]
    before = _chance.random() < 0.5
    if dies and before:
        _die(new)
    _replace(old, new)
    if dies and not before:
        _die(new)


if _settings:
    os.replace = _dying_replace
