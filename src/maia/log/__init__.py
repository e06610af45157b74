"""What is kept of the frames that passed, and how is any of it found again, whole or not at all?"""

from __future__ import annotations

__all__: list[str] = []
