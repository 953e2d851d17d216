"""All decoder layers of the talker or the code predictor in one compiled call (SPEC 2, 5)."""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.kernels.compiled import CACHE
from engine.kernels.compiled.arrays import copy
from engine.kernels.compiled.matrix import gated_product, normalize, product
from engine.kernels.compiled.simd import LANES, add, exp, load_f32, splat, store_f32, total
from engine.kernels.compiled.team import wait

QKV, OUT, GATE_UP, DOWN = range(4)
"""The matrices of a layer."""
MATRIX = np.dtype(
    [(name, np.int64) for name in ("kind", "weights", "scales", "offsets", "groups", "tiles")], align=True
)
"""A matrix of a layer. weights, scales, offsets: addresses. groups: of 32 inputs. tiles: of 16 outputs."""
_SUMS = {"reassoc", "contract", "nsz"}
"""Permissions for LLVM in loops of sums, whose order is then fixed when they are compiled."""


@njit(nogil=True, cache=CACHE, fastmath=_SUMS)
def _rotate(head, gain, epsilon, cosine, sine, target):
    """RMSNorm of a query or a key, then its rotation. cosine, sine: float32 [head_dim / 2]."""
    width, half = len(head), len(cosine)
    squares = np.float32(0)
    for index in range(width):
        squares += head[index] * head[index]
    factor = np.float32(1 / (squares / width + epsilon) ** 0.5)
    for index in range(half):
        left, right = head[index] * factor * gain[index], head[half + index] * factor * gain[half + index]
        target[index] = left * cosine[index] - right * sine[index]
        target[half + index] = right * cosine[index] + left * sine[index]


@njit(nogil=True, cache=CACHE, fastmath=_SUMS)
def _attend(query, keys, values, count, scores, out):
    """Softmax attention of one query to ``count`` positions. scores: scratch, float32 [multiple of 16]."""
    width = len(query)
    scale = np.float32(width**-0.5)
    peak = np.float32(-np.inf)
    for position in range(count):
        key = keys[position]
        score = np.float32(0)
        for index in range(width):
            score += query[index] * key[index]
        score *= scale
        scores[position] = score
        peak = max(peak, score)
    blocks = (count + LANES - 1) // LANES
    for position in range(count, blocks * LANES):
        scores[position] = -np.inf
    address = scores.ctypes.data
    sums = splat(0.0)
    for block in range(blocks):
        weights = exp(add(load_f32(address + 64 * block), splat(-peak)))
        store_f32(address + 64 * block, weights)
    for position in range(count, blocks * LANES):
        scores[position] = 0
    for block in range(blocks):
        sums = add(sums, load_f32(address + 64 * block))
    inverse = 1 / total(sums)
    for index in range(width):
        out[index] = 0
    for position in range(count):
        weight, value = scores[position] * inverse, values[position]
        for index in range(width):
            out[index] += weight * value[index]


@njit(nogil=True, cache=CACHE)
def _attention(kv_head, groups, kv_heads, qkv, gains, epsilon, cos, sin, keys, values, slots, positions, out, scratch):
    """Attention of all queries of a key head, for all rows, after their keys and values are in the cache.

    qkv: float32 [rows, (heads + 2 kv_heads) * head_dim] or more. keys, values: [slots, kv_heads, context, head_dim].
    scratch: a query and its scores.
    """
    width = keys.shape[3]
    heads = groups * kv_heads
    key_start = (heads + kv_head) * width
    value_start = key_start + kv_heads * width
    query, scores = scratch[:width], scratch[width:]
    for row in range(len(qkv)):
        slot, position = slots[row], positions[row]
        key = keys[slot, kv_head, position]
        _rotate(qkv[row, key_start : key_start + width], gains[1], epsilon, cos[position], sin[position], key)
        copy(qkv[row, value_start : value_start + width], values[slot, kv_head, position])
    for row in range(len(qkv)):
        slot, position = slots[row], positions[row]
        for head in range(kv_head * groups, (kv_head + 1) * groups):
            own = qkv[row, head * width : (head + 1) * width]
            _rotate(own, gains[0], epsilon, cos[position], sin[position], query)
            target = out[row, head * width : (head + 1) * width]
            _attend(query, keys[slot, kv_head], values[slot, kv_head], position + 1, scores, target)


@njit(nogil=True, cache=CACHE)
def run_layers(me, size, barrier, model, cache, x, slots, positions, buffers, head, every, y):
    """Run rows through all layers, the final norm and a head, in thread ``me`` of ``size``.

    Args:
        me: number of this thread.
        size: number of threads.
        barrier: of the team.
        model: ``LayerTensors`` of the model.
        cache: keys and values, float32 [layers, slots, kv_heads, context, head_dim] each.
        x: float32 [rows, width]; overwritten.
        slots: int64 [rows], where the keys and values of each row are.
        positions: int64 [rows]. Rows of a slot are in the order of their positions.
        buffers: ``Buffers``.
        head: number of the head, -1 for none.
        every: the head maps the last of every ``every`` rows.
        y: float32 [rows, width], the hidden states; or [rows / every, outputs of the head].
    """
    keys, values = cache
    rows = len(x)
    qkv, attended, gated = buffers.qkv[:rows], buffers.attended[:rows], buffers.gated[:rows]
    normed = buffers.normed[me, :rows]
    codes = buffers.codes[me].ctypes.data
    scales, sums, out = buffers.scales[me], buffers.sums[me], buffers.out[me]
    # Computed, because numba would compile ``product`` once more for a literal.
    adds = size > 0
    wait(barrier, size)
    for layer in range(len(model.matrices)):
        matrices = model.matrices[layer]
        for row in range(rows):
            normalize(x[row], model.hidden, model.norms[layer, 0], model.epsilon, normed[row])
        product(matrices[QKV], normed, qkv, not adds, me, size, codes, scales, sums, out)
        wait(barrier, size)
        for kv_head in range(me, model.kv_heads, size):
            _attention(
                kv_head,
                model.heads // model.kv_heads,
                model.kv_heads,
                qkv,
                model.gains[layer],
                model.epsilon,
                model.cos,
                model.sin,
                keys[layer],
                values[layer],
                slots,
                positions,
                attended,
                buffers.scores[me],
            )
        wait(barrier, size)
        product(matrices[OUT], attended, x, adds, me, size, codes, scales, sums, out)
        wait(barrier, size)
        for row in range(rows):
            normalize(x[row], model.hidden, model.norms[layer, 1], model.epsilon, normed[row])
        gated_product(matrices[GATE_UP], normed, gated, me, size, codes, scales, sums, out)
        wait(barrier, size)
        product(matrices[DOWN], gated, x, adds, me, size, codes, scales, sums, out)
        wait(barrier, size)
    if head < 0:
        for row in range(me, rows, size):
            normalize(x[row], model.hidden, model.final_norm, model.epsilon, y[row])
    else:
        states = normed[: rows // every]
        for row in range(len(states)):
            normalize(x[every * (row + 1) - 1], model.hidden, model.final_norm, model.epsilon, states[row])
        product(model.outputs[head], states, y, not adds, me, size, codes, scales, sums, out)
    wait(barrier, size)
