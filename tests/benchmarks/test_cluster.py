"""The benchmark of the simulated cluster: its lines and its sheets of figures."""

import math

from benchmarks import BENCHMARKS, cluster


def test_quick_run_has_all_lines_and_sheets(tmp_path, monkeypatch):
    for name, few in {"KEYS": 10**5, "SCALES": (10, 20), "STATES": (60, 600)}.items():
        monkeypatch.setattr(f"slidejoin.cluster.figures.{name}", few)
    said = []
    report = BENCHMARKS["cluster"].run(True, said.append)
    assert said[:2] == ["tuple by tuple", "by counts"]
    assert "figure hot-key" in said
    whats = [result.what for result in report.results]
    assert len(set(whats)) == len(whats)
    assert all(math.isfinite(result.value) for result in report.results)
    assert [result.target for result in report.results[:2]] == ["< 30", "< 60"]
    assert sum("paper:" in what for what in whats) >= 12
    files = report.draw(tmp_path)
    assert [file.name for file in files] == [f"cluster-{name}.png" for name in cluster.SHEETS]
    assert all(file.read_bytes()[1:4] == b"PNG" for file in files)
