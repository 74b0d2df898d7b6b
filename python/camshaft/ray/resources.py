# SPDX-License-Identifier: Apache-2.0
"""What Ray gave to this process."""
from __future__ import annotations

import ray


def threads() -> int:
    """As many as the CPUs of this actor or task, at least one; 0, all there are, where this is neither."""
    try:
        assigned = ray.get_runtime_context().get_assigned_resources()
    except AssertionError:  # a driver
        return 0
    return max(1, int(assigned.get("CPU", 1)))
