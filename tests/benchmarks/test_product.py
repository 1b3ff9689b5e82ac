"""The benchmark of the product in its smallest form."""

from benchmarks import BENCHMARKS


def test_smoke_run_measures_every_line():
    said = []
    report = BENCHMARKS["product"].run(True, said.append)
    assert all(result.value is not None and result.value > 0 for result in report.results)
    assert len({result.what for result in report.results}) == len(report.results)
    assert report.quick
    assert said
