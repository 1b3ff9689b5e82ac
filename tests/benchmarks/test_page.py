"""docs/performance.md says what was measured."""

import json

from benchmarks import BENCHMARKS, page


def test_the_page_is_written_from_the_results():
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run python -m benchmarks.page"


def test_missed_targets_and_uncommitted_code_are_named(tmp_path, monkeypatch):
    report = {
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
    (tmp_path / "window.json").write_text(json.dumps(report))
    monkeypatch.setattr(page, "_file", lambda name: tmp_path / f"{name}.json")
    text = page.page()
    assert "| window | a \\| b | 1.25 x | >= 2 |" in text
    assert "commit 0123456789, with changes that were not committed" in text
    assert "| rate | not measured |" in text
    assert BENCHMARKS["window"].about in text
