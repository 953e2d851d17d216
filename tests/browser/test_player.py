"""The page's audio player with pieces that arrive too fast, too slowly, or split within a sample."""

from __future__ import annotations

from typing import Any

from tests.browser.playground import Playground

IMPORT = """
const { Player, PcmReader } = await import('/playground/player.js');
const context = new AudioContext({ sampleRate: 24000 });
const player = new Player(context);
const second = new Float32Array(24000);
"""


def evaluate(playground: Playground, script: str) -> Any:
    playground.text.click()  # browsers play no audio before a user interacts with the page
    return playground.page.evaluate("async () => {" + IMPORT + script + "}")


def test_the_player_applies_back_pressure_when_it_is_far_ahead(playground: Playground) -> None:
    taken, ahead = evaluate(
        playground,
        """
        let taken = 0;
        const feeding = (async () => { for (; taken < 40; taken += 1) await player.push(second); })();
        while (taken < 32) await new Promise(requestAnimationFrame);
        const ahead = player.ahead;
        player.stop();
        await feeding;
        return [taken, ahead];
        """,
    )
    assert taken == 40
    assert 29 < ahead < 32


def test_a_gap_is_counted_and_not_part_of_the_played_time(playground: Playground) -> None:
    gaps, played = evaluate(
        playground,
        """
        const tenth = second.slice(0, 2400);
        await player.push(tenth);
        while (player.ahead) await new Promise(requestAnimationFrame);
        await new Promise(requestAnimationFrame);
        await player.push(tenth);
        player.finish();
        await player.ended;
        while (player.ahead) await new Promise(requestAnimationFrame);
        return [player.gaps, player.played];
        """,
    )
    assert gaps == 1
    assert abs(played - 0.2) < 1e-6


def test_samples_may_be_split_across_pieces(playground: Playground) -> None:
    samples = evaluate(
        playground,
        """
        const reader = new PcmReader();
        const pieces = [[0], [64, 0, 192], [], [255, 127, 0, 128]];
        return pieces.flatMap((piece) => [...reader.read(Uint8Array.from(piece))]);
        """,
    )
    assert samples == [0.5, -0.5, 32767 / 32768, -1]


def test_the_lead_grows_with_each_gap(playground: Playground) -> None:
    leads = evaluate(
        playground,
        """
        let now = 1;
        Object.defineProperty(context, "currentTime", { get: () => now });
        const leads = [];
        for (let turn = 0; turn < 7; turn += 1) {
            await player.push(second);
            leads.push(player.ahead - 1);
            now += player.ahead + 0.001;
        }
        return leads;
        """,
    )
    assert [round(lead, 3) for lead in leads] == [0.02, 0.16, 0.32, 0.64, 1.28, 2.56, 2.56]
