"""Credits of consumed audio are returned to the engine once per iteration of the event loop."""

import asyncio

from engine.client.credits import CreditBatch
from engine.transfer import StreamError, Wakeup, pair


class RecordingEndpoint:
    def __init__(self):
        self.released = []

    def release_all(self, units):
        self.released.append(units)


async def test_credits_of_one_iteration_are_released_together_and_once():
    endpoint = RecordingEndpoint()
    credits = CreditBatch(endpoint)
    for stream in (1, 2, 1):
        credits.add(stream, 3)
    assert endpoint.released == []
    await asyncio.sleep(0)
    assert endpoint.released == [[(1, 3), (2, 3), (1, 3)]]
    credits.add(2, 1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert endpoint.released[1:] == [[(2, 1)]]


async def test_an_invalid_credit_does_not_affect_other_streams():
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
        credits = CreditBatch(audio)
        for stream, units in ((1, 4), (2, 5), (3, 4)):
            credits.add(stream, units)
        await asyncio.sleep(0)
        assert wakeup.wait_for(lambda: code2wav.credits([1, 2, 3]) == [4, 0, 4], 10)
    assert [type(error) for error in errors] == [StreamError]
