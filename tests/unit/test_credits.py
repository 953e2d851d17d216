"""What listeners take is told to the engine once a turn of the event loop."""

import asyncio

from engine.client.credits import CreditBatch
from engine.transfer import StreamError, Wakeup, pair


class Audio:
    def __init__(self):
        self.told = []

    def release_all(self, units):
        self.told.append(units)


async def test_what_is_taken_in_one_turn_is_told_at_once_and_nothing_twice():
    audio = Audio()
    taken = CreditBatch(audio)
    for stream in (1, 2, 1):
        taken.add(stream, 3)
    assert audio.told == []
    await asyncio.sleep(0)
    assert audio.told == [[(1, 3), (2, 3), (1, 3)]]
    taken.add(2, 1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert audio.told[1:] == [[(2, 1)]]


async def test_what_one_listener_may_not_give_back_costs_the_others_nothing():
    client, engine = pair(window=4)
    wakeup, errors = Wakeup(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    with client.attach(Wakeup()) as audio, engine.attach(wakeup) as code2wav:
        for stream in (1, 2, 3):
            code2wav.open(stream)
            code2wav.send(stream, b"", 4)
        received = 0
        while received < 6:
            received += len(audio.receive())
            await asyncio.sleep(0)
        taken = CreditBatch(audio)
        for stream, units in ((1, 4), (2, 5), (3, 4)):
            taken.add(stream, units)
        await asyncio.sleep(0)
        assert wakeup.wait_for(lambda: code2wav.credits([1, 2, 3]) == [4, 0, 4], 10)
    assert [type(error) for error in errors] == [StreamError]
