"""The counter-based random numbers used for sampling."""

import torch

from engine.talker.sampling import uniforms


def test_known_values():
    """Published test vector of SplitMix64: for seed 0 the first outputs are 0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4."""
    seeds, frames = torch.tensor([0, 1, -1, 2**63 - 1]), torch.tensor([0, 0, 5, 8191])
    drawn = uniforms(seeds, frames, 16)
    assert drawn.shape == (4, 16)
    assert drawn.dtype is torch.float64
    assert torch.equal(drawn[0, :2], torch.tensor([0xE220A839, 0x6E789E6A], dtype=torch.float64) * 2.0**-32)


def test_a_number_depends_only_on_seed_frame_and_codebook():
    alone = uniforms(torch.tensor([5]), torch.tensor([3]), 16)
    together = uniforms(torch.tensor([9, 5, 5]), torch.tensor([3, 3, 4]), 16)
    assert torch.equal(together[1], alone[0])
    assert not torch.equal(together[2], alone[0])


def test_numbers_are_uniform():
    drawn = uniforms(torch.arange(2000), torch.arange(2000) % 50, 16).flatten()
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts = torch.histc(drawn, bins=20, min=0, max=1)
    expected = len(drawn) / 20
    assert ((counts - expected) ** 2 / expected).sum() < 44  # chi-squared, 19 degrees of freedom, p = 0.001
    assert len(drawn.unique()) > 0.999 * len(drawn)
