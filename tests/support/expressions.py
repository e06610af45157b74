"""Random S-expressions, and bytes that are nearly one."""

from __future__ import annotations

from hypothesis import strategies as st

from maia.canonical import Hinted, SExpression, write_canonical

WORDS = st.sampled_from(
    [b"", b"a", b"cert", b"10:x", b"(", b")", b"[1:a]", b"1", b"0", b'"', b"\\", b"\x00", b"\xff" * 9]
)
STRINGS = st.one_of(WORDS, st.binary(max_size=12), st.binary(min_size=95, max_size=130))
HINTED = st.builds(Hinted, st.one_of(st.just(b"text/plain"), st.binary(min_size=1, max_size=11)), STRINGS)


def expressions() -> st.SearchStrategy[SExpression]:
    """Draw an expression of any shape."""
    return st.recursive(
        st.one_of(STRINGS, HINTED),
        lambda inner: st.lists(inner, max_size=5).map(tuple),
        max_leaves=20,
    )


@st.composite
def nearly_canonical(draw: st.DrawFn) -> bytes:
    """Draw canonical bytes with a few of them changed, dropped, doubled or inserted."""
    data = bytearray(write_canonical(draw(expressions())))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["insert", "drop", "change", "double"])):
            case "insert":
                data[at:at] = draw(
                    st.sampled_from([b"0", b"1", b"9", b":", b"(", b")", b"[", b"]", b" ", b"-", b"_"])
                )
            case "drop":
                del data[at : at + 1]
            case "change" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case _:
                data[at:at] = data[at : at + 2]
    return bytes(data)
