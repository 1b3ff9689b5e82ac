"""Reports: targets, the shape of the JSON, the printed table."""

import io
import json

import pytest
from rich.console import Console

from benchmarks.report import Report, Target, measured, missing

MACHINE = {
    "cpu": "Processor",
    "cores": 2,
    "instruction_set": "portable",
    "load_before": None,
    "load_after": None,
}


@pytest.mark.parametrize(
    ("target", "value", "met"),
    [
        (Target(">=", 1.4), 1.4, True),
        (Target(">=", 1.4), 1.39, False),
        (Target("<", 3), 2.9, True),
        (Target("<", 3), 3.0, False),
    ],
)
def test_targets(target, value, met):
    assert target.met(value) is met
    assert measured("a", [value], "x", target).ok is met


def report(quick=False):
    results = [
        measured("fast", [1.0, 2.0, 6.0], "x", Target(">=", 1.5)),
        measured("slow", [1.0], "x", Target(">=", 1.5)),
        measured("for information", [7.0], "M tuples/s"),
        missing("not here", "x", Target("<", 3), "install it"),
    ]
    return Report("sample", quick, MACHINE, {"window": 8}, results)


def test_json_has_its_shape(tmp_path):
    path = tmp_path / "deep" / "sample.json"
    report().write(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert list(data) == ["benchmark", "quick", "machine", "parameters", "results"]
    assert data["results"][0] == {
        "what": "fast",
        "value": 2.0,
        "unit": "x",
        "target": ">= 1.5",
        "ok": True,
        "spread": 1.25,
        "samples": [1.0, 2.0, 6.0],
        "note": None,
    }
    assert data["results"][2]["target"] is data["results"][2]["ok"] is None
    assert data["results"][3]["value"] is None
    assert data["results"][3]["note"] == "install it"


def printed(quick):
    console = Console(file=io.StringIO(), width=120)
    report(quick).print(console)
    return console.file.getvalue()


def test_table_holds_values_against_targets():
    text = printed(quick=False)
    for part in ("fast", "2 x", ">= 1.5", "ok", "missed", "install it", "1 of 3 targets met"):
        assert part in text


def test_quick_table_gives_no_verdict():
    text = printed(quick=True)
    assert "mean nothing" in text
    assert "missed" not in text
    assert "targets met" not in text
