"""Restricts a process to one GPU. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping

from engine.errors import SetupError

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def with_gpu(index: int, environment: Mapping[str, str], setting: str) -> dict[str, str]:
    """Return a copy of ``environment`` in which only the GPU ``index`` is visible (CUDA_VISIBLE_DEVICES).

    ``index`` counts the GPUs that are visible in ``environment``. Raises SetupError, which names ``setting``, if that
    many are not visible.
    """
    visible = environment.get(_VISIBLE)
    if visible is None:
        return {**environment, _VISIBLE: str(index)}
    names = [name.strip() for name in visible.split(",") if name.strip()]
    if index >= len(names):
        raise SetupError(
            f"{setting} must be less than {len(names)}, the number of GPUs in {_VISIBLE}, got {index}",
            code="no_device",
        )
    return {**environment, _VISIBLE: names[index]}
