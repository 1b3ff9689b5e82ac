"""The benchmark of the product in its smallest form."""

from benchmarks import BENCHMARKS, product_cli
from benchmarks.report import measured


def test_smoke_run_measures_every_line(monkeypatch):
    """``test_product_cli`` times the processes of the command line; here its lines are only taken along."""
    monkeypatch.setattr(product_cli, "lines", lambda sizes, _: [measured("rows", [sizes.rows], "rows")])
    said = []
    report = BENCHMARKS["product"].run(True, said.append)
    assert all(result.value is not None and result.value > 0 for result in report.results)
    assert len({result.what for result in report.results}) == len(report.results)
    assert report.results[-1].value == product_cli.QUICK.rows
    assert report.quick
    assert said
