"""Credit of consumed audio and the ends of requests are sent to the engine in batches."""

import asyncio

from engine.client.deferred import DeferredRecords
from engine.transfer import StreamError, Wakeup, pair


class RecordingEndpoint:
    def __init__(self):
        self.released, self.ended = asyncio.Queue(), []

    def release_all(self, units):
        self.released.put_nowait(dict(units))

    def end(self, stream):
        self.ended.append(stream)


async def test_records_are_sent_together_and_once():
    endpoint = RecordingEndpoint()
    deferred = DeferredRecords(endpoint, endpoint)
    for stream in (1, 2, 1):
        deferred.release(stream, 3)
    deferred.end(7)
    deferred.end(8)
    await asyncio.sleep(0)
    assert (endpoint.released.empty(), endpoint.ended) == (True, [])
    async with asyncio.timeout(10):
        assert await endpoint.released.get() == {1: 6, 2: 3}
        assert endpoint.ended == [7, 8]
        deferred.release(2, 1)
        assert await endpoint.released.get() == {2: 1}
    assert (endpoint.released.empty(), endpoint.ended) == (True, [7, 8])


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
        deferred = DeferredRecords(audio, audio)
        for stream, units in ((1, 4), (2, 5), (3, 4)):
            deferred.release(stream, units)
        async with asyncio.timeout(10):
            while code2wav.credits([1, 2, 3]) != [4, 0, 4]:
                await asyncio.sleep(0.001)
    assert [type(error) for error in errors] == [StreamError]
