"""The papers' stories as data: who is in them, and who granted what to whom."""

from maia.demo.brokers import BROKERS, NumberplateBrokers, add_brokers
from maia.demo.numberplate import NUMBERPLATE_KINDS, NumberplateStory, tell_numberplate_story

__all__ = [
    "BROKERS",
    "NUMBERPLATE_KINDS",
    "NumberplateBrokers",
    "NumberplateStory",
    "add_brokers",
    "tell_numberplate_story",
]
