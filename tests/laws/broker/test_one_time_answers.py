"""What depends on one-time answers stands exactly while they serve, whatever happens in between (P6, A30)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from maia.credentials import Action
from maia.testing import Issuer, answers_to
from maia.wire.messages import Challenge
from support.numberplate import Net
from support.one_time import Story, vouch
from support.random_cases import usually

LEASE_S, ASKED_AGAIN_S, PATIENCE_S = 60, 30, 20

Step = int | Literal["answer", "refuse", "replay", "ask", "revoke", "restart"]
WORDS = ["answer", "answer", "refuse", "replay", "ask", "ask", "revoke", "restart"]
STEPS = st.lists(st.integers(1, 25) | st.sampled_from(WORDS), max_size=14)


@dataclass
class Reference:
    """The slow and obvious version: one entry, a clock in seconds, and what was said when."""

    now: int = 0
    vouched_at: int | None = None
    waits: Literal["request", "entry"] | None = None
    asked_at: int = 0
    is_revoked: bool = False

    @property
    def stands(self) -> bool:
        return self.vouched_at is not None

    def second(self) -> None:
        self.now += 1
        if self.vouched_at is not None and self.now > self.vouched_at + LEASE_S:
            self.end()
        if self.waits and self.now >= self.asked_at + PATIENCE_S:
            self.refuse()
        self.ask_again()

    def ask(self) -> None:
        if not self.is_revoked:
            self.waits, self.asked_at = "request", self.now

    def ask_again(self) -> None:
        if self.vouched_at is not None and not self.waits and self.now >= self.vouched_at + ASKED_AGAIN_S:
            self.waits, self.asked_at = "entry", self.now

    def answer(self) -> None:
        if self.waits:
            self.waits, self.vouched_at = None, self.now

    def refuse(self) -> None:
        if self.waits == "entry":
            self.vouched_at = None
        self.waits = None
        self.ask_again()

    def end(self) -> None:
        self.waits = self.vouched_at = None


class Played:
    """The broker beside its reference, and a client that does what the steps say."""

    def __init__(self) -> None:
        self.net = Net()
        self.net.broker()
        self.issuer = Issuer(self.net, "CCS")
        self.cast = Story(self.net, answers=False)
        self.model = Reference(waits="request")
        self.used: list[bytes] = []
        self.request = self.cast.asked

    def challenge(self) -> Challenge | None:
        heard = self.cast.billing.all_heard(Challenge)
        return heard[-1] if heard else None

    def do(self, step: Step) -> None:
        match step:
            case int(seconds):
                for _ in range(seconds):
                    self.net.advance(1)
                    self.model.second()
                    self.cast.renew()
            case "ask":
                self.request = self.cast.billing.request(Action.SUBSCRIBE)
                self.cast.billing.subscribe(request=self.request, ref=self.cast.ref)
                self.model.ask()
            case "answer" if self.challenge() is not None:
                self.used = answers_to(self.challenge(), self.net.cast.keys["CCS"])
                vouch(self.cast.billing)
                self.cast.asked = self.request if self.model.waits == "request" else self.cast.asked
                self.model.answer()
            case "refuse" if self.challenge() is not None:
                self.cast.billing.refuse()
                self.model.refuse()
            case "replay" if self.challenge() is not None and self.used:
                self.cast.billing.refuse(self.used)
                self.model.refuse()
            case "revoke":
                self.issuer = self._reconnected_issuer()  # what it offered before may have ended meanwhile
                self.issuer.revoke(self.cast.right)
                self.model.is_revoked = True
                self.model.end()
            case "restart":
                self._restart()

    def _restart(self) -> None:
        self.net.restart("CCS broker")
        self.issuer = self._reconnected_issuer()
        story, net = self.cast, self.net
        story.camera = net.client("camera at Victoria")
        story.offer = story.camera.advertise()
        story.billing = net.client("billing office", credentials=story.pool)
        self.model.end()

    def _reconnected_issuer(self) -> Issuer:
        issuer = Issuer(self.net, "CCS")
        issuer.says = self.issuer.says
        return issuer

    def check(self) -> None:
        assert (self.cast.sees() == 1) is self.model.stands, self.model


@pytest.mark.laws
@settings(max_examples=usually(8, laws=40))  # each plays minutes of a broker
@given(STEPS)
@example(["answer", 25, 25, "answer"])
@example(["answer", 25, 6, "answer", 25, 5, "replay"])
@example(["answer", 25, 25, 1, "ask", "answer"])
@example(["answer", 20, "ask", 20])
@example(["answer", "revoke", "ask", "answer"])
@example(["answer", "restart", "ask", "replay", "ask", "answer"])
@example(["answer", 25, "answer", 25, "answer", 25, "revoke"])
@example(["revoke", "revoke"])
def test_an_entry_is_served_exactly_while_its_answers_serve(steps: list[Step]) -> None:
    played = Played()
    played.check()
    for step in steps:
        played.do(step)
        played.check()
