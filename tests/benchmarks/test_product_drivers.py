"""The benchmark of the stream drivers in its smallest form."""

from benchmarks import product_drivers


def test_smoke_run_measures_every_line():
    said = []
    results = list(product_drivers.lines(True, said.append))
    assert [result.target for result in results] == [">= 0.3", "<= 5"]
    assert results[0].value > 0
    assert results[1].value is not None
    assert len(said) == 2
