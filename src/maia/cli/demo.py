"""`maia demo`"""

from typing import Final

EXAMPLES: Final = ""


def demo() -> int:
    """x"""
    return 0
