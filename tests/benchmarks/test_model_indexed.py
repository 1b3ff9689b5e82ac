"""The grid of indexed joins: a quick run, and what its lines say about known errors."""

from dataclasses import replace

from benchmarks.model_indexed import QUICK, Point, measure, report
from slidejoin.index import PARAMETERS
from slidejoin.model import Costs


def test_a_quick_run_measures_every_index(tmp_path):
    told = []
    results, figures = measure(replace(QUICK, windows=(2**9,)), Costs.default(), told.append)
    assert results[0].target == "<= 15"
    names = " ".join(result.what for result in results)
    assert all(f"with {index} " in names for index in PARAMETERS)
    assert all(result.value is not None and result.value >= 0 for result in results)
    assert len(told) == len(PARAMETERS)
    figures["model-validation-indexed.png"](tmp_path / "boxes.png")
    assert (tmp_path / "boxes.png").stat().st_size > 10_000


def test_the_error_is_that_of_the_throughput():
    points = [
        Point("b-tree", 2**14, 1, 8, measured=2e-7, predicted=1e-7),  # half as fast as predicted
        Point("b-tree", 2**14, 1, 128, measured=1e-7, predicted=2e-7),
        Point("im-tree", 2**16, 1, 8, measured=1e-7, predicted=1e-7),
    ]
    assert [point.error for point in points] == [100, -50, 0]
    whole, *others = report(points)
    assert whole.value == 50
    assert whole.ok is False
    assert "b-tree, w=2^14, 1 matches, pushes of 8: 10 instead of 5 M tuples/s" in whole.note
    by_name = {result.what.split(" (")[0]: result.value for result in others}
    assert by_name["indexed joins, throughput, error, with im-tree"] == 0
    assert by_name["indexed joins, throughput, error, w=2^14"] == 75
