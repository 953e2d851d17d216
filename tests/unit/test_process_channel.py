"""Messages between HTTP processes: with descriptors, of any size, and what happens when one ends."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass
from typing import Any

import pytest

from server.processes.channel import Channel, PeerLost
from server.processes.messages import Question

TIMEOUT = 10.0


@dataclass(frozen=True)
class Ask(Question[str]):
    """A question that is answered with its text."""

    text: str


class Recorder:
    """Keeps what arrives. Answers a question with its text, after ``release`` is set."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[tuple[Any, list[int]]] = asyncio.Queue()
        self.release = asyncio.Event()
        self.release.set()
        self.gone = asyncio.Event()

    def received(self, message: object, descriptors: list[int]) -> None:
        self.messages.put_nowait((message, descriptors))

    async def answer(self, question: Question[Any]) -> object:
        await self.release.wait()
        assert isinstance(question, Ask)
        if question.text == "fail":
            raise ValueError("a defect")
        return question.text

    def disconnected(self) -> None:
        self.gone.set()


def connected() -> tuple[Channel, Recorder, Channel, Recorder]:
    """Two ends of a channel in one process."""
    one, other = socket.socketpair()
    first, second = Recorder(), Recorder()
    return Channel(one, first), first, Channel(other, second), second


async def test_messages_of_any_size_arrive_in_order_with_their_descriptors() -> None:
    channel, _, other, receiver = connected()
    texts = ["short", "long" * 500_000, "", "last"]
    pipes = [os.pipe() for _ in texts]
    for text, (reading, writing) in zip(texts, pipes, strict=True):
        os.write(writing, text[:4].encode())
        os.close(writing)
        channel.send({"text": text}, [reading])
    for text in texts:
        message, (descriptor,) = await asyncio.wait_for(receiver.messages.get(), TIMEOUT)
        assert message["text"] == text
        assert os.read(descriptor, 10) == text[:4].encode()
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)
    channel.close()
    other.close()


async def test_questions_are_answered_in_any_order() -> None:
    channel, _, other, _ = connected()
    answers = await asyncio.gather(*(channel.ask(Ask(name), TIMEOUT) for name in "abc"))
    assert answers == ["a", "b", "c"]
    assert await other.ask(Ask("back"), TIMEOUT) == "back"
    channel.close()
    other.close()


async def test_a_question_without_an_answer_ends() -> None:
    channel, _, other, receiver = connected()
    receiver.release.clear()
    with pytest.raises(PeerLost):
        await channel.ask(Ask("slow"), 0.05)
    waiting = asyncio.ensure_future(channel.ask(Ask("slow"), TIMEOUT))
    await asyncio.sleep(0)
    other.close()
    with pytest.raises(PeerLost):
        await waiting
    with pytest.raises(PeerLost):
        await channel.ask(Ask("late"), TIMEOUT)
    channel.close()


async def test_a_failed_answer_does_not_end_the_channel(caplog: pytest.LogCaptureFixture) -> None:
    channel, _, other, _ = connected()
    with pytest.raises(PeerLost):
        await asyncio.wait_for(channel.ask(Ask("fail"), None), TIMEOUT)
    assert "a defect" in caplog.text
    assert await channel.ask(Ask("next"), TIMEOUT) == "next"
    channel.close()
    other.close()


async def test_the_end_of_a_process_is_noticed_and_leaves_no_descriptor() -> None:
    before = set(os.listdir("/proc/self/fd"))
    channel, sender, other, _ = connected()
    for number in range(300):
        reading, writing = os.pipe()
        os.close(writing)
        channel.send({"text": "x" * 10_000, "number": number}, [reading])
    other.close()
    await asyncio.wait_for(sender.gone.wait(), TIMEOUT)
    reading, writing = os.pipe()
    os.close(writing)
    channel.send({"text": "after the end"}, [reading])
    assert set(os.listdir("/proc/self/fd")) == before
