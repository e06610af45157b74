"""Is it still so? Statements on certificates, what follows from them, one-time answers and facts; no I/O."""

from maia.validity.monitor import (
    ASSUMED_GOOD,
    AsOf,
    Changed,
    Monitor,
    Once,
    Tester,
    lacking,
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
    questions_for,
)

__all__ = [
    "ASSUMED_GOOD",
    "AsOf",
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
    "questions_for",
    "speakers",
    "lacking",
    "named_testers",
]
