"""What listeners take is told to the engine once a turn of the event loop."""

import asyncio

from engine.taken import Taken


class Audio:
    def __init__(self):
        self.told = []

    def release_all(self, units):
        self.told.append(units)


async def test_what_is_taken_in_one_turn_is_told_at_once_and_nothing_twice():
    audio = Audio()
    taken = Taken(audio)
    for stream in (1, 2, 1):
        taken.add(stream, 3)
    assert audio.told == []
    await asyncio.sleep(0)
    assert audio.told == [[(1, 3), (2, 3), (1, 3)]]
    taken.add(2, 1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert audio.told[1:] == [[(2, 1)]]
