# SPDX-License-Identifier: Apache-2.0
"""``python -m camshaft``: the command line."""
import sys

from .programs import camshaft

sys.exit(camshaft())
