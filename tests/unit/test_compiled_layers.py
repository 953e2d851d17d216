"""Compiled decoder layers equal plain ones except for rounding, and each row is independent of the rest of the call."""

import resource
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from numba import njit, types
from numba.core.errors import TypingError

from engine.checkpoint.architecture import Transformer
from engine.kernels.compiled import team as team_module
from engine.kernels.compiled.integer_dots import INT4_DOTS, cpu_features, int4_dots, int4_instructions
from engine.kernels.compiled.simd import exp, load_f32, store_f32, to_f32
from engine.kernels.compiled.team import Team, wait
from engine.kernels.quantization import GROUP, quantize_groups, quantize_rows
from engine.models.compiled_layers import CompiledLayers, LayerSource
from engine.models.qwen3 import Qwen3Stack
from engine.models.weights import Weights
from engine.talker.native.slot_cache import SlotCache

CPU = torch.device("cpu")
SHAPE = Transformer(hidden=96, intermediate=224, layers=3, heads=4, kv_heads=2, head_dim=32, rope_theta=1e6, eps=1e-6)
ODD = replace(SHAPE, hidden=72, intermediate=200, head_dim=24)
"""Widths that are no multiple of 32, or of 16."""
SLOTS, POSITIONS = 4, 160
QUANTIZE = {
    "float32": lambda matrix: matrix,
    "bfloat16": lambda matrix: matrix.bfloat16(),
    "int8": quantize_rows,
    "int4": quantize_groups,
}
MATRICES = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "out": ("self_attn.o_proj",),
    "gate": ("mlp.gate_proj",),
    "up": ("mlp.up_proj",),
    "down": ("mlp.down_proj",),
}


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def relative_error(approximate, exact):
    return ((approximate - exact).norm() / exact.norm()).item()


def layer_tensors(shape, number):
    """Random tensors of a layer, by their names in a checkpoint."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    sizes = {
        "self_attn.q_proj": (queries, shape.hidden),
        "self_attn.k_proj": (keys, shape.hidden),
        "self_attn.v_proj": (keys, shape.hidden),
        "self_attn.o_proj": (shape.hidden, queries),
        "mlp.gate_proj": (shape.intermediate, shape.hidden),
        "mlp.up_proj": (shape.intermediate, shape.hidden),
        "mlp.down_proj": (shape.hidden, shape.intermediate),
        "input_layernorm": (shape.hidden,),
        "post_attention_layernorm": (shape.hidden,),
        "self_attn.q_norm": (shape.head_dim,),
        "self_attn.k_norm": (shape.head_dim,),
    }
    tensors = {}
    for index, (name, size) in enumerate(sizes.items()):
        values = normal(*size, seed=100 * number + index)
        tensors[name] = values / size[1] ** 0.5 if len(size) == 2 else 1 + 0.1 * values
    return tensors


def both(kind, team, shape=SHAPE, **options):
    """Return compiled layers with random weights, and plain ones with the values of the same codes."""
    compiled = CompiledLayers(shape, slots=SLOTS, positions=POSITIONS, team=Team(team), **options)
    plain = {}
    for number in range(shape.layers):
        tensors = layer_tensors(shape, number)
        codes = {}
        for part, names in MATRICES.items():
            matrices = [tensors[name] for name in names]
            codes[part] = QUANTIZE[kind](torch.cat(matrices))
            values = codes[part].float() if isinstance(codes[part], torch.Tensor) else codes[part].dequantize()
            tensors |= zip(names, values.split([len(each) for each in matrices]), strict=True)
        norms = (tensors["input_layernorm"], tensors["post_attention_layernorm"])
        gains = (tensors["self_attn.q_norm"], tensors["self_attn.k_norm"])
        compiled.set_layer(number, LayerSource(**codes, norms=norms, gains=gains))
        plain |= {f"layers.{number}.{name}.weight": tensor for name, tensor in tensors.items()}
    norm = plain["norm.weight"] = 1 + 0.1 * normal(shape.hidden, seed=9)
    compiled.set_final_norm(norm)
    return compiled, Qwen3Stack(Weights(plain, CPU, torch.float32), shape, POSITIONS)


def run(layers, x, slot, start=0):
    return layers(x, np.full(len(x), slot), np.arange(start, start + len(x)))


@pytest.mark.parametrize(
    ("kind", "shape", "error"),
    [
        ("float32", SHAPE, 1e-5),
        ("float32", ODD, 1e-5),
        ("bfloat16", ODD, 1e-5),
        ("int8", SHAPE, 1e-3),
        ("int8", ODD, 1e-3),
        ("int4", SHAPE, 0.03),
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
@torch.inference_mode()
def test_compiled_layers_equal_plain_ones_except_for_rounding(kind, shape, error, threads):
    compiled, plain = both(kind, threads, shape)
    cache = SlotCache(shape, SLOTS, POSITIONS, CPU, torch.float32)
    x = normal(100, shape.hidden, seed=1)
    expected = plain(x, slice(0, 100), cache.prefill(2, 0, 100))
    assert relative_error(run(compiled, x, slot=2), expected) < error
    x = normal(1, shape.hidden, seed=2)
    expected = plain(x, slice(100, 101), cache.decode([2], [100]))
    assert relative_error(run(compiled, x, slot=2, start=100), expected) < error


@pytest.mark.parametrize("kind", QUANTIZE)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_has_the_same_bits_alone_and_beside_others(kind, threads):
    layers, _ = both(kind, threads)
    x = normal(33, SLOTS, SHAPE.hidden, seed=1) * torch.logspace(-2, 2, SLOTS)[:, None]
    prompts, rows = x[:32], x[32]
    alone = []
    for slot in range(SLOTS):
        whole = run(layers, prompts[:, slot], slot)
        alone.append((whole, run(layers, rows[slot : slot + 1], slot, 32)))
    for slot in range(SLOTS):
        in_parts = [run(layers, part, slot, start) for start, part in ((0, prompts[:5, slot]), (5, prompts[5:, slot]))]
        assert torch.equal(torch.cat(in_parts), alone[slot][0])
    together = layers(rows, np.arange(SLOTS), np.full(SLOTS, 32))
    assert torch.equal(together, torch.cat([row for _, row in alone]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("threads", [1, 3])
def test_heads_map_the_last_of_several_rows_to_logits(dtype, threads):
    heads = [(normal(50, ODD.hidden, seed=seed) / 8).to(dtype) for seed in (5, 6)]
    layers, _ = both("float32", threads, ODD, heads=heads)
    x, slots, positions = normal(100, ODD.hidden, seed=7), np.repeat(np.arange(50) % SLOTS, 2), np.tile([0, 1], 50)
    states = layers(x, slots, positions)
    for number, head in enumerate(heads):
        expected = states @ head.float().T
        assert relative_error(layers.logits(x, slots, positions, number), expected) < 1e-5
        assert relative_error(layers.logits(x, slots, positions, number, every=2), expected[1::2]) < 1e-5


def test_a_function_that_cannot_be_compiled_fails_before_any_thread_waits():
    @njit(nogil=True)
    def broken(me, size, barrier, x):
        return x.no_such_attribute

    team = Team(2)
    with pytest.raises(TypingError):
        team.run(broken, 1)

    @njit(nogil=True)
    def write(me, size, barrier, out):
        out[me] = 1
        wait(barrier, size)

    out = np.zeros(2)
    team.run(write, out)
    assert out.tolist() == [1, 1]


def test_the_number_of_threads_does_not_change_the_result():
    x = normal(7, SHAPE.hidden, seed=3)
    results = [run(both("int4", threads)[0], x, slot=0) for threads in (1, 2, 3)]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_a_call_may_use_fewer_threads_than_the_team_has():
    x, slots, positions = normal(7, SHAPE.hidden, seed=3), np.zeros(7, np.int64), np.arange(7)
    layers, _ = both("float32", 3, threads=2)
    few, whole, one = (layers(x, slots, positions, threads=count) for count in (None, 3, 1))
    assert torch.equal(few, whole)
    assert torch.equal(few, one)
    with pytest.raises(ValueError, match="threads must be at most the team's 3, got 4"):
        layers(x, slots, positions, threads=4)


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_rows_of_zeros_give_finite_results(kind):
    assert run(both(kind, 1)[0], torch.zeros(3, SHAPE.hidden), slot=0).isfinite().all()


def runs_here(instructions):
    """Return whether this CPU has the instructions of a 4-bit product."""
    needs = {"avx512vnni": {"avx512vnni", "avx512vl"}, "generic": set()}
    return needs.get(instructions, {instructions}) <= cpu_features()


@pytest.mark.parametrize("instructions", INT4_DOTS)
def test_every_instruction_set_gives_the_exact_sums(instructions):
    if not runs_here(instructions):
        pytest.skip(f"this CPU has no {instructions}")
    one, four = int4_dots(instructions)

    @njit
    def products(weights, first, second, third, fourth, out):
        store_f32(out, to_f32(one(weights, first)))
        for index, sums in enumerate(four(weights, first, second, third, fourth)):
            store_f32(out + 64 * (1 + index), to_f32(sums))

    random = np.random.default_rng(0)
    codes = random.integers(0, 16, (16, GROUP))
    codes[0] = 15
    activations = random.integers(-127, 128, (4, GROUP)).astype(np.int8)
    activations[0], activations[1] = 127, -127
    quads = codes.reshape(16, 4, 2, 4)
    weights = (quads[:, :, 0] | quads[:, :, 1] << 4).transpose(1, 0, 2).astype(np.uint8).copy()
    out = np.zeros((5, 16), np.float32)
    products(weights.ctypes.data, *(each.ctypes.data for each in activations), out.ctypes.data)
    expected = activations.astype(int) @ codes.T
    assert np.array_equal(out, [expected[0], *expected])


@pytest.mark.parametrize(
    ("features", "instructions"),
    [
        ({"avx2", "avx512vnni", "avx512vl"}, "avx512vnni"),
        ({"avx2", "avxvnni"}, "avxvnni"),
        ({"avx2"}, "avx2"),
        ({"neon", "dotprod"}, "dotprod"),
        ({"neon"}, "generic"),
    ],
)
def test_the_fastest_instructions_of_a_cpu_are_used(features, instructions):
    assert int4_instructions(features) == instructions


def test_the_exponential_is_that_of_numpy():
    x = np.concatenate([np.linspace(-80, 80, 1000), [0, -0.0, 1e-8, -1e-8, 88, -87, -np.inf, -1000]]).astype(np.float32)

    @njit
    def exponentials(source, target, count):
        for offset in range(0, 4 * count, 64):
            store_f32(target + offset, exp(load_f32(source + offset)))

    y = np.empty_like(x)
    exponentials(x.ctypes.data, y.ctypes.data, len(x))
    assert np.allclose(y, np.exp(x.astype(float)), rtol=3e-7, atol=1e-37)


@njit(nogil=True)
def _count_rounds(me, size, barrier, counts, mismatches, rounds):
    """Count in every thread; between two barriers every thread sees the same counts."""
    wait(barrier, size)
    for _ in range(rounds):
        counts[me] += 1
        wait(barrier, size)
        for other in range(size):
            if counts[other] != counts[me]:
                mismatches[me] += 1
        wait(barrier, size)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_no_thread_passes_a_barrier_before_all_have_arrived(size):
    team, counts, mismatches = Team(size), np.zeros(size, np.int64), np.zeros(size, np.int64)
    for _ in range(3):
        team.run(_count_rounds, counts, mismatches, 300)
    assert counts.tolist() == [900] * size
    assert not mismatches.any()


_usleep = types.ExternalFunction("usleep", types.int32(types.uint32))


@njit(nogil=True)
def _arrive_late(me, size, barrier, arrivals, seen, rounds):
    """In each round one thread arrives after the others have begun to sleep."""
    for number in range(rounds):
        if number % size == me:
            _usleep(20_000)
        arrivals[number, me] = 1
        wait(barrier, size)
        seen[number, me] = arrivals[number].sum()
        wait(barrier, size)


def test_threads_that_wait_long_sleep_until_the_last_one_arrives():
    rounds, size = 20, 5
    team = Team(size)
    arrivals, seen = np.zeros((rounds, size), np.int64), np.zeros((rounds, size), np.int64)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    team.run(_arrive_late, arrivals, seen, rounds)
    assert (seen == size).all()
    if team_module._FUTEX is not None:
        sleeps = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before
        assert sleeps > 2 * rounds  # one in each round is that of the late thread


def test_the_threads_of_a_team_end_with_it():
    before = set(threading.enumerate())
    team = Team(3)
    started = set(threading.enumerate()) - before
    assert len(started) == 2
    del team
    for thread in started:
        thread.join(timeout=10)
        assert not thread.is_alive()
