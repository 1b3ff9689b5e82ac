"""docs/performance.md says what was measured."""

import json
import re

from benchmarks import BENCHMARKS, page
from benchmarks.bucket import LINES, STEPS
from benchmarks.picture import time_of_an_arrival


def test_the_page_is_written_from_the_results():
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run python -m benchmarks.page"
    assert page.PICTURE.read_text(encoding="utf-8") == page.picture(), "run python -m benchmarks.page"


def test_the_picture_has_a_bar_for_each_window():
    lines = {"w=2^9": 4.0, "w=2^10": 40.0}
    results = [
        {"what": f"bucket-tree, step {step}, groups of 16, {shape}", "value": float(number)}
        for shape in lines
        for number, step in enumerate(STEPS, start=1)
    ] + [{"what": f"{LINES}, {shape}", "value": value} for shape, value in lines.items()]
    drawn = time_of_an_arrival({"results": results})
    assert drawn.count('height="30"') == len(lines) * len(STEPS)
    assert drawn.count(">21 ns<") == len(lines)
    marks = [float(x) for x in re.findall(r'<line x1="([0-9.]+)"', drawn)]
    assert [round((x - 96) / (marks[1] - 96), 2) for x in marks] == [0.1, 1.0]


REPORT = {
    "benchmark": "window",
    "machine": {
        "cpu": "Processor", "cores": 2, "instruction_set": "avx2", "commit": "0123456789abcdef",
        "dirty": True, "load_before": None,
    },
    "results": [
        {"what": "a | b", "value": 1.25, "unit": "x", "target": ">= 2", "ok": False, "spread": 0.1},
        {"what": "rate", "value": None, "unit": "M/s", "target": None, "ok": None, "spread": None},
    ],
}  # fmt: skip


def test_missed_targets_and_uncommitted_code_are_named(tmp_path, monkeypatch):
    (tmp_path / "window.json").write_text(json.dumps(REPORT))
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    text = page.page()
    assert "| a \\| b | 1.25 x (window) | >= 2 |" in text
    assert "commit 0123456789, with changes that were not committed" in text
    assert "| rate | not measured |" in text
    assert BENCHMARKS["window"].about in text


def test_reasons_have_the_figures_of_their_report(tmp_path, monkeypatch):
    missed = {"what": "bucket-tree, p99.99 of pushes of 16, w=2^20", "value": 46.4, "unit": "µs"}
    missed |= {"target": "<= 40", "ok": False, "spread": 0.0}
    other = {"what": "no join, p99.99 of pushes of 16, w=2^20", "value": 74.3, "unit": "µs"}
    other |= {"target": None, "ok": None, "spread": 0.0}
    (tmp_path / "window.json").write_text(json.dumps(REPORT | {"results": [missed, other]}))
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    row = next(line for line in page.page().splitlines() if line.startswith("| bucket-tree, p99.99"))
    assert "which a loop without a join has, too (74.3 µs)" in row
    assert "which is the join's own, is not measured |" in row


def test_a_miss_that_rounds_to_its_target_has_a_digit_more(tmp_path, monkeypatch):
    line = {"what": "ratio", "value": 3.996, "unit": "x", "target": ">= 4", "ok": False, "spread": 0.0}
    (tmp_path / "window.json").write_text(json.dumps(REPORT | {"results": [line]}))
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    assert "| ratio | 3.996 x (window) | >= 4 |" in page.page()


def test_reasons_name_lines_that_there_are():
    missed = page.PAGE.read_text(encoding="utf-8").partition("## Targets that were missed")[2]
    assert "not measured" not in missed.partition("\n## ")[0]


def test_further_machines_have_sections_of_their_own(tmp_path, monkeypatch):
    other = {**REPORT, "machine": {**REPORT["machine"], "cores": 16, "smt_siblings": ["0-1", "2-3"]}}
    (tmp_path / "window.json").write_text(json.dumps(REPORT))
    (tmp_path / "window-16.json").write_text(json.dumps(other))
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    text = page.page()
    assert "| a \\| b | 1.25 x (window), 1.25 x (window-16) | >= 2 |" in text
    one, two = text.index("## window\n"), text.index("## window-16\n")
    assert "Processor, 2 cores, avx2" in text[one:two]
    assert "Processor, 16 cores (threads of one core: 0-1 2-3), avx2" in text[two:]
