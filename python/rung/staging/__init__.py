# SPDX-License-Identifier: Apache-2.0
"""rung.stage(): sources, progress, and the call itself."""

from .run import QuantizedRows, StageResult, stage

__all__ = ["QuantizedRows", "StageResult", "stage"]
