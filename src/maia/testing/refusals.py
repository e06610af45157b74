"""Which refusal does a test expect?

Errors are told apart by their codes, so a test names the code:
`with raises("POLICY-NO-CHAIN", match="police"): ...`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maia.errors import MaiaError

if TYPE_CHECKING:
    import pytest


def raises(*expected: str | type[BaseException], match: str | None = None) -> pytest.RaisesExc[BaseException]:
    """Expect one of these errors, each said by its code or by its class."""
    import pytest

    kinds = tuple(MaiaError if isinstance(one, str) else one for one in expected)
    return pytest.raises(kinds, match=match, check=lambda problem: _is_one_of(problem, expected))


def error_code(problem: object) -> str:
    """Return the code of an error; what is no error of Maia has none."""
    return problem.code if isinstance(problem, MaiaError) else ""


def _is_one_of(problem: BaseException, expected: tuple[str | type[BaseException], ...]) -> bool:
    return any(
        error_code(problem) == one if isinstance(one, str) else isinstance(problem, one) for one in expected
    )
