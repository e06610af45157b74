"""Is it still so? Statements on certificates, what follows from them, one-time answers and facts; no I/O."""

from maia.validity.monitor import (
    ASSUMED_GOOD,
    Changed,
    Monitor,
    Once,
    Tester,
    named_testers,
    one_time_tests,
    speakers,
)
from maia.validity.one_time import (
    NO_ANSWERS,
    PATIENCE,
    OneTimeQuestion,
    OpenQuestions,
    Revalidated,
    VouchedFor,
    answer_question,
    question_from_bytes,
    question_to_bytes,
)

__all__ = [
    "ASSUMED_GOOD",
    "NO_ANSWERS",
    "PATIENCE",
    "Changed",
    "Monitor",
    "Once",
    "OneTimeQuestion",
    "OpenQuestions",
    "Revalidated",
    "Tester",
    "VouchedFor",
    "answer_question",
    "one_time_tests",
    "question_from_bytes",
    "question_to_bytes",
    "speakers",
    "named_testers",
]
