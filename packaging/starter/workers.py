"""Gradient workers: one thread each, parameters and gradients in shared memory.

On few, busy cores one-thread processes beat threads by far: threads wait for each other at every
operation, these processes only at the end of a step.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
from typing import Any, NamedTuple

import torch
from head_loss import head_loss
from moe_model import EXPERTS, StarterModel
from rows import TrainingRow
from torch import Tensor

STALLED_S = 1800.0


class Task(NamedTuple):
    """One row; `scale` is 1 / scored tokens of the step, `load` the recent expert load [layers, experts]."""

    row: TrainingRow
    scale: float
    balance: float
    load: Tensor


class Result(NamedTuple):
    """Summed loss in nats, its tokens, and tokens per expert [layers, experts]."""

    domain: str
    loss: float
    tokens: int
    counts: Tensor


def run_row(model: StarterModel, task: Task) -> Result:
    """Adds the row's gradients to the parameters' `.grad`."""
    tokens = torch.from_numpy(task.row.tokens).long()
    keep = torch.from_numpy(task.row.scored).bool()
    inputs, targets = tokens[:-1].unsqueeze(0), tokens[1:][keep]
    hidden, routings = model(inputs, torch.arange(inputs.shape[1]).unsqueeze(0))
    loss = head_loss(hidden[keep], model.head, targets)
    # Switch-style balance: experts that were busy lately are made less likely. Using the recent
    # load of all domains, not this row's, lets experts specialise.
    means = torch.stack([routing.probabilities.mean(0) for routing in routings])
    uneven = EXPERTS * (means * task.load).sum(1).mean()
    (loss * task.scale + task.balance * uneven).backward()
    counts = torch.stack([routing.chosen.flatten().bincount(minlength=EXPERTS) for routing in routings])
    return Result(task.row.domain, float(loss.detach()), int(keep.sum()), counts)


class Workers:
    """`step` fills every parameter's `.grad` with the summed gradient of its tasks."""

    def __init__(self, model: StarterModel, count: int) -> None:
        context: Any = multiprocessing.get_context("fork")
        self._tasks, self._results = context.Queue(), context.Queue()
        self._parameters = list(model.parameters())
        for parameter in self._parameters:
            parameter.data.share_memory_()
        self._grads = [
            [torch.zeros_like(p.data).share_memory_() for p in self._parameters] for _ in range(count)
        ]
        for grads in self._grads:
            arguments = (model, grads, self._tasks, self._results)
            context.Process(target=_work, args=arguments, daemon=True).start()

    def step(self, tasks: list[Task]) -> list[Result]:
        for task in tasks:
            self._tasks.put(task)
        try:
            results = [self._results.get(timeout=STALLED_S) for _ in tasks]
        except queue.Empty:
            raise SystemExit("a training worker died or stalled; start again, it resumes") from None
        for index, parameter in enumerate(self._parameters):
            first, *rest = (grads[index] for grads in self._grads)
            for other in rest:
                first += other
                other.zero_()
            parameter.grad = first
        return results

    def clear(self) -> None:
        for gradient in self._grads[0]:
            gradient.zero_()


def _work(model: StarterModel, grads: list[Tensor], tasks: Any, results: Any) -> None:
    torch.set_num_threads(1)
    for parameter, gradient in zip(model.parameters(), grads, strict=True):
        parameter.grad = gradient
    parent = os.getppid()
    while os.getppid() == parent:  # a worker never outlives its run
        with contextlib.suppress(queue.Empty):
            results.put(run_row(model, tasks.get(timeout=5.0)))
