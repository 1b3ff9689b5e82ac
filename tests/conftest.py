"""Settings of the whole suite: hypothesis profiles; SLIDEJOIN_TESTS=long searches longer."""

import os

from hypothesis import HealthCheck, settings

common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("short", max_examples=100, derandomize=bool(os.environ.get("CI")), **common)
settings.register_profile("long", max_examples=3000, **common)
settings.load_profile("long" if os.environ.get("SLIDEJOIN_TESTS") == "long" else "short")
