"""One training step: losses, gradients, optimizers, average of the weights."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from scripts.train_pocket.config import TalkerTraining
from scripts.train_pocket.cuda_graphs import GraphedCallable, Pool, graph_memory_pool
from scripts.train_pocket.distributed import average_gradients
from scripts.train_pocket.talker.feed import Rows
from scripts.train_pocket.talker.losses import Losses, losses, score, total
from scripts.train_pocket.talker.model import TrainableTalker
from scripts.train_pocket.talker.optimizers import optimizers


class Trainer:
    """Trains a model. average: the model with a moving average of the weights over about the last 1000 steps."""

    def __init__(self, model: TrainableTalker, settings: TalkerTraining) -> None:
        self.model, self.settings = model, settings
        self.average = copy.deepcopy(model).eval().requires_grad_(False)
        self.optimizers = optimizers(model, settings)
        self.steps = 0
        self._parameters = list(model.parameters())
        self._averages: list[Tensor] = list(self.average.parameters())
        self._passes: dict[torch.Size, _Pass] = {}
        self._pool = graph_memory_pool(next(model.parameters()).device)

    def step(self, rows: Rows, rate: float) -> tuple[Losses, Tensor]:
        """Train on a batch with the learning rate ``rate``. Return its losses and the gradient norm, detached."""
        self.model.train()
        shape = rows.text.shape
        if shape not in self._passes:
            self._passes[shape] = _Pass(self.model, self.settings, rows, self._pool)
        step_losses = self._passes[shape](rows)
        average_gradients(self._parameters)
        norm = nn.utils.clip_grad_norm_(self._parameters, self.settings.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        self.steps += 1
        self._update_average()
        return step_losses, norm

    @torch.no_grad()
    def _update_average(self) -> None:
        """Update the average. It covers fewer steps at the beginning, when the weights change quickly."""
        decay = min(self.settings.average, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(self._averages, tuple(self._parameters), 1 - decay)


class _Pass:
    """Forward and backward pass of batches of one shape."""

    def __init__(self, model: TrainableTalker, settings: TalkerTraining, rows: Rows, pool: Pool | None) -> None:
        self._model, self._settings = model, settings
        self._parameters = list(model.parameters())
        self._rows = Rows(*(tensor.clone() for tensor in rows))
        self._work = GraphedCallable(self._forward_backward, rows.text.device, pool)
        self._gradients: list[Tensor | None] = []

    def __call__(self, rows: Rows) -> Losses:
        """Return the losses, and set the gradients of the parameters."""
        for buffer, value in zip(self._rows, rows, strict=True):
            buffer.copy_(value)
        step_losses = self._work()
        if not self._gradients or not rows.text.is_cuda:
            self._gradients = [parameter.grad for parameter in self._parameters]
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        return Losses(step_losses.first.clone(), step_losses.books.clone())

    def _forward_backward(self) -> Losses:
        for parameter in self._parameters:
            parameter.grad = None
        step_losses = losses(score(self._model, self._rows, code_noise=self._settings.draws.code_noise))
        total(step_losses, self._settings).backward()
        return Losses(step_losses.first.detach(), step_losses.books.detach())
