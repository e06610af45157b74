"""How do a network's events become tables and streams in Spark, under the rights that hold on the wire?"""

from __future__ import annotations

__all__: list[str] = []
