"""The papers' stories as data: who is in them, and who granted what to whom."""

from maia.scenarios.numberplate import NUMBERPLATE_KINDS, NumberplateStory, tell_numberplate_story

__all__ = ["NUMBERPLATE_KINDS", "NumberplateStory", "tell_numberplate_story"]
