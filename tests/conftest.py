"""Settings of the whole suite: Hypothesis profiles. SLIDEJOIN_TESTS=long searches longer."""

import os
import signal

import pyarrow as pa
from hypothesis import HealthCheck, Phase, settings

common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("short", max_examples=100, derandomize=bool(os.environ.get("CI")), **common)
settings.register_profile("long", max_examples=3000, **common)
# The same examples each time, and no time spent on small ones: one failure is enough (tests/mutants).
settings.register_profile(
    "mutants", max_examples=100, derandomize=True, phases=[Phase.explicit, Phase.generate], **common
)
settings.load_profile(os.environ.get("SLIDEJOIN_TESTS") or "short")

# No test depends on the costs that were measured on this machine.
os.environ["SLIDEJOIN_CALIBRATION"] = os.path.join(os.path.dirname(__file__), "no-costs.json")

# Tests interrupt joins and programs that they start; a shell makes its background jobs ignore SIGINT.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Types that pyarrow has from 19 on; the oldest that is supported tests others in their place.
for newer, older in (("decimal32", pa.decimal128), ("decimal64", pa.decimal128), ("json_", pa.string)):
    if not hasattr(pa, newer):
        setattr(pa, newer, older)
