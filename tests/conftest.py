# SPDX-License-Identifier: Apache-2.0
"""What the machine lacks is not tested: where `camshaft` is told to use AVX-512 and there is none, it takes the next lower set, which has a test of its own."""
import pytest

from instruction_sets import lacking


def pytest_collection_modifyitems(items):
    missing = lacking()
    for item in items:
        isa = item.callspec.params.get("isa") if hasattr(item, "callspec") else None
        if isa in missing:
            item.add_marker(pytest.mark.skip(reason=f"this machine has no {isa}"))
