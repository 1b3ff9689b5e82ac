"""docs/performance.md says what was measured."""

import json

from benchmarks import BENCHMARKS, page


def test_the_page_is_written_from_the_results():
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run python -m benchmarks.page"


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
    assert "| window | a \\| b | 1.25 x | >= 2 |" in text
    assert "commit 0123456789, with changes that were not committed" in text
    assert "| rate | not measured |" in text
    assert BENCHMARKS["window"].about in text


def test_further_machines_have_sections_of_their_own(tmp_path, monkeypatch):
    other = {**REPORT, "machine": {**REPORT["machine"], "cores": 16, "smt_siblings": ["0-1", "2-3"]}}
    (tmp_path / "window.json").write_text(json.dumps(REPORT))
    (tmp_path / "window-16.json").write_text(json.dumps(other))
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    text = page.page()
    assert "| window | a \\| b |" in text
    assert "| window-16 | a \\| b |" in text
    one, two = text.index("## window\n"), text.index("## window-16\n")
    assert "Processor, 2 cores, avx2" in text[one:two]
    assert "Processor, 16 cores (threads of one core: 0-1 2-3), avx2" in text[two:]
