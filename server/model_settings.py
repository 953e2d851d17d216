"""Settings of one of several models of a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from engine.config import EngineConfig

DefaultVoice = Annotated[
    str | None, Field(description="Voice of requests that name none. Unset: the checkpoint's first speaker.")
]
VoiceAliases = Annotated[
    dict[str, str],
    Field(
        description="Other names of voices, such as OpenAI's, each with the speaker of the checkpoint or the stored "
        "voice that it stands for."
    ),
]


class ModelSettings(BaseModel):
    """A model of the server: its names, voices and engines. The first is the default.

    ``models`` excludes ``engine``, ``served_name``, ``model_aliases``, ``voice_aliases`` and ``default_voice``.
    """

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=256, description="Name of the model in the API.")
    aliases: tuple[str, ...] = Field(
        (),
        description="Other names of the model. A `*` stands for any characters. OpenAI's names, `tts-1*` and "
        "`gpt-4o-mini-tts*`, select the first model unless another one has them as aliases.",
    )
    default_voice: DefaultVoice = None
    voice_aliases: VoiceAliases = Field(default_factory=dict)
    engine: EngineConfig
    replicas: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Number of engines with this checkpoint. Unset: one, or one for each of `gpus`.",
    )
    gpus: tuple[int, ...] = Field(
        (),
        description="Indices of the GPUs of the engines, from 0, among those in CUDA_VISIBLE_DEVICES. Engines are "
        "assigned to them in turn. Engines that share a GPU need `engine.gpu_memory_gib`. Empty: as `engine` says.",
    )
    keep_alive: float = Field(
        -1,
        le=31_536_000,
        description="Seconds without requests after which the engines are unloaded. The next request loads them again "
        "and waits, at most `limits.first_sound_seconds`. -1 keeps them loaded.",
    )

    @property
    def engines(self) -> list[EngineConfig]:
        """The configuration of each engine."""
        count = self.replicas or len(self.gpus) or 1
        if not self.gpus:
            return [self.engine] * count
        return [self.engine.model_copy(update={"gpu": self.gpus[index % len(self.gpus)]}) for index in range(count)]

    @property
    def slots(self) -> int:
        """Number of requests that all engines together process at once."""
        return len(self.engines) * self.engine.talker.slots

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.keep_alive < 0 and self.keep_alive != -1:
            raise ValueError(f"keep_alive must be at least 0, or -1 for always, got {self.keep_alive:g}")
        if any(gpu < 0 for gpu in self.gpus):
            raise ValueError(f"gpus must be indices from 0, got {list(self.gpus)}")
        if self.gpus and (
            self.engine.device == "cpu" or self.engine.gpu is not None or self.engine.code2wav.gpu is not None
        ):
            raise ValueError("gpus excludes engine.device: cpu, engine.gpu and engine.code2wav.gpu; leave them unset")
        if self.replicas is not None and self.replicas < len(self.gpus):
            raise ValueError(f"replicas must be at least {len(self.gpus)}, one for each of gpus, got {self.replicas}")
        return self


def check_models(models: Iterable[ModelSettings], http_processes: int) -> None:
    """Raise ValueError if two models have the same name or alias, or if a setting excludes ``http_processes``."""
    owners: dict[str, str] = {}
    for model in models:
        if http_processes > 1 and model.keep_alive >= 0:
            raise ValueError(f"keep_alive of model '{model.name}': cannot be combined with several http_processes")
        for name in dict.fromkeys((model.name, *model.aliases)):
            if name in owners:
                raise ValueError(
                    f"models: the names and aliases of models must differ, got '{name}' for '{owners[name]}' and for "
                    f"'{model.name}'"
                )
            owners[name] = model.name
