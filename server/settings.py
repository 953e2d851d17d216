"""The settings: from a YAML file, overridden by SONANT_* variables, overridden by command-line flags."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)
from pydantic_settings import SettingsError as SourceError

from engine.config import EngineConfig
from engine.system.regular_file import read_regular
from server.references.config import ReferenceSettings
from server.voices.config import VoiceSettings

DEFAULT_CONFIG = Path(__file__).resolve().parent.parent / "configs" / "pocket.yaml"

_PREFIX = "SONANT_"
_NESTED = "__"
_MAX_CONFIG_BYTES = 1024 * 1024
_CLIENT_VARIABLES = frozenset({"SONANT_SERVER"})
"""Variables that the client scripts read; they are not settings of the server."""


class SettingsError(Exception):
    """The settings are invalid. The message names every invalid key."""


class Limits(BaseModel):
    """What one request, and all of them together, may take."""

    model_config = ConfigDict(extra="forbid")

    max_input_chars: int = Field(4096, ge=1, description="characters of the text to speak")
    max_split_chars: int = Field(200_000, ge=1, description="characters of a text that is split and streamed")
    max_batch_items: int = Field(64, ge=1, description="requests of a batch")
    max_batch_bytes: int = Field(
        64 * 1024 * 1024, ge=1, description="bytes of audio that a batch keeps until all of it is made"
    )
    max_instructions_chars: int = Field(2000, ge=1, description="characters of the instructions")
    max_body_bytes: int = Field(16 * 1024 * 1024, ge=1024, description="bytes of a request body")
    max_bodies_bytes: int = Field(
        256 * 1024 * 1024,
        ge=1024,
        description="bytes of all request bodies, and of whole responses, that are held at once; one above 64 KiB that "
        "exceeds it is a 503",
    )
    max_connections: int | None = Field(
        None,
        ge=16,
        description="open connections, WebSockets included; when unset, what the limit on open files allows, at most "
        "4096",
    )
    connection_share: float = Field(
        0.8,
        gt=0,
        le=1,
        description="share of the connections that one address may hold; set it to 1 behind a reverse proxy, whose "
        "address is that of all its clients",
    )
    client_share: float = Field(
        0.8,
        gt=0,
        le=1,
        description="share of bodies in flight, sessions and seats that one client, a key or an address, "
        "may hold; rounded up, and at least one",
    )
    max_running: int | None = Field(
        None, ge=1, description="speech requests that run at once; as many as the talker has slots when unset"
    )
    max_waiting: int = Field(56, ge=0, description="speech requests in line behind them; the next one is a 429")
    max_live_sessions: int = Field(256, ge=1, description="live sessions open at once; the next one is a 429")
    contended_wait_seconds: float = Field(
        10.0,
        ge=0,
        le=86_400,
        description="while others wait for a seat, a client may keep the engine waiting, to take audio or to send "
        "text, for so many seconds beyond the audio it was given; then its request ends",
    )
    first_sound_seconds: float = Field(
        120.0, gt=0, le=86_400, description="until the first sound; then the request fails"
    )
    request_seconds: float = Field(
        60.0, gt=0, le=86_400, description="until the last byte of a request; then it is given up"
    )
    stalled_seconds: float = Field(
        60.0, ge=0.1, le=86_400, description="a listener who takes nothing for so long counts as gone"
    )
    live_idle_seconds: float = Field(
        60.0, gt=0, le=86_400, description="a live session ends when it waits so long for text"
    )
    live_seconds: float = Field(3600.0, gt=0, le=86_400, description="a live session ends after so long in any case")
    drain_seconds: float = Field(
        30.0, ge=0, le=86_400, description="a server told to stop lets what it has accepted end for so long"
    )
    http_stall_seconds: float = Field(
        30.0,
        ge=1,
        le=86_400,
        description="the HTTP process is killed and restarted when its event loop has not run for so long",
    )
    max_outcomes: int = Field(
        10_000, ge=0, description="ended requests that GET /v1/audio/speech/{id} remembers, each for an hour"
    )
    reference_min_seconds: float = Field(1.0, ge=0, description="shortest recording of a voice to clone")
    reference_max_seconds: float = Field(30.0, gt=0, description="longest recording of a voice to clone")
    reference_max_bytes: int = Field(10 * 1024 * 1024, ge=1, description="bytes of a recording, as encoded in its file")

    @model_validator(mode="after")
    def _check_bodies(self) -> Self:
        if self.max_bodies_bytes * self.client_share < self.max_body_bytes:
            raise ValueError(
                f"max_bodies_bytes times client_share must be at least max_body_bytes, got {self.max_bodies_bytes} * "
                f"{self.client_share:g} < {self.max_body_bytes}"
            )
        return self


class Settings(BaseSettings):
    """The settings of one server process."""

    model_config = SettingsConfigDict(
        extra="forbid", env_prefix=_PREFIX, env_nested_delimiter=_NESTED, validate_default=True
    )

    engine: EngineConfig
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="0 takes any free port")
    served_name: str | None = Field(
        None, min_length=1, max_length=256, description="the model's name on the wire; its folder's name when unset"
    )
    model_aliases: tuple[str, ...] = Field(
        ("tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15"),
        description="other names that mean the served model",
    )
    voice_aliases: dict[str, str] = Field(
        default_factory=dict, description="OpenAI's voice names, each with the speaker or stored voice it stands for"
    )
    default_voice: str | None = Field(
        None, description="the voice of requests that name none; the checkpoint's first speaker when unset"
    )
    ignored_fields: tuple[str, ...] = Field(
        (
            "download_format",
            "lang_code",
            "normalization_options",
            "return_download_link",
            "stream_options",
            "user",
            "volume_multiplier",
        ),
        description="request fields of other servers that are dropped without a word",
    )
    trim_leading_silence: bool = Field(
        False, description="drop what cannot be heard before the first sound, but for a short pre-roll"
    )
    api_key: SecretStr | None = Field(None, description="a key that requests must bring; best set as SONANT_API_KEY")
    keys_file: Path | None = Field(None, description="a file of more keys: one a line, # begins a comment")
    allow_unauthenticated: bool = Field(
        False, description="listen beyond this machine also without any key, for whoever reaches the address"
    )
    own_names: tuple[str, ...] = Field(
        (),
        description="host names of a server without keys, which refuses requests for any other Host; localhost, IP "
        "addresses, names without a dot and this machine's name always are its own",
    )
    log_format: Literal["text", "json"] = Field("text", description="lines for people, or one JSON object a line")
    tracing: bool = Field(False, description="send an OpenTelemetry span for each speech request; needs the otel extra")
    limits: Limits = Field(default_factory=Limits)
    voices: VoiceSettings = Field(default_factory=VoiceSettings)
    references: ReferenceSettings = Field(default_factory=ReferenceSettings)

    @property
    def engine_config(self) -> EngineConfig:
        """The configuration of the engine, with the server's log format."""
        return self.engine.model_copy(update={"log_format": self.log_format})

    @property
    def max_running(self) -> int:
        """Maximum number of speech requests that run at once."""
        return self.limits.max_running or self.engine.talker.slots

    @property
    def model_name(self) -> str:
        """The name of the model in the API."""
        return self.served_name or Path(self.engine.model).name

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: flags, then variables, then the file. There is no .env file and no secrets folder."""
        return init_settings, env_settings, _AnchoredYaml(settings_cls)


class _AnchoredYaml(YamlConfigSettingsSource):
    """The YAML file. Paths in it are relative to the file, not to the working directory."""

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        """Read the file, without blocking if a FIFO has replaced it since ``_check_file``."""
        return yaml.safe_load(read_regular(Path(file_path), _MAX_CONFIG_BYTES)) or {}

    def __call__(self) -> dict[str, Any]:
        values = super().__call__()
        folder = Path(str(self.yaml_file_path)).resolve().parent
        if isinstance(keys_file := values.get("keys_file"), str):
            values["keys_file"] = os.path.normpath(folder / Path(keys_file).expanduser())
        voices = values.get("voices")
        if isinstance(voices, dict) and isinstance(at := voices.get("folder"), str):
            values["voices"] = voices | {"folder": os.path.normpath(folder / Path(at).expanduser())}
        references = values.get("references")
        if isinstance(references, dict) and isinstance(folders := references.get("folders"), list):
            anchors = [os.path.normpath(folder / Path(str(each)).expanduser()) for each in folders]
            values["references"] = references | {"folders": anchors}
        engine = values.get("engine")
        if isinstance(engine, dict):
            model = engine.get("model")
            values["engine"] = engine | ({"model": anchored(model, folder)} if isinstance(model, str) else {})
        return values


def anchored(model: str, folder: Path) -> str:
    """Return ``model`` as an absolute path if it is a folder, else unchanged as a hub name.

    It is a folder if it starts with ``.``, ``/`` or ``~``, or exists as a folder in ``folder``.
    """
    path = Path(model).expanduser()
    if path.is_absolute() or model.startswith(".") or (folder / path).is_dir():
        return os.path.normpath(folder / path)
    return model


def load_settings(config: Path | None = None, flags: dict[str, Any] | None = None) -> Settings:
    """Load and validate the settings. ``flags`` is nested like the settings and overrides all other sources.

    Raises SettingsError for an unreadable file, an unknown key or an invalid value.
    """
    path = config or _default_config(flags or {})
    if path is not None:
        _check_file(path)
    _refuse_unknown_variables()

    class Configured(Settings):
        model_config = SettingsConfigDict(yaml_file=path)

    try:
        settings = Configured(**(flags or {}))
    except ValidationError as error:
        raise SettingsError("; ".join(_sentence(item) for item in error.errors())) from None
    except SourceError as error:
        raise SettingsError(str(error)) from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{path}: {error}") from None
    except (TypeError, ValueError):
        raise SettingsError(f"{path or 'settings'}: not a mapping of settings") from None
    settings.engine.model = anchored(settings.engine.model, Path.cwd())
    return settings


def _check_file(path: Path) -> None:
    """Raise SettingsError if ``path`` is not a readable configuration file."""
    try:
        read_regular(path, _MAX_CONFIG_BYTES)
    except FileNotFoundError:
        raise SettingsError(
            f"there is no configuration file {path}; name one, or a checkpoint, with --config or --model"
        ) from None
    except OSError as error:
        raise SettingsError(f"the configuration file {path} cannot be read: {error.strerror}") from None


def _default_config(flags: dict[str, Any]) -> Path | None:
    """Return the default configuration file. None if it does not exist (in a wheel) and a model is named."""
    named = "model" in flags.get("engine", {}) or f"{_PREFIX}ENGINE{_NESTED}MODEL" in os.environ
    return None if named and not DEFAULT_CONFIG.is_file() else DEFAULT_CONFIG


def _refuse_unknown_variables() -> None:
    for name in os.environ:
        if not name.startswith(_PREFIX) or name in _CLIENT_VARIABLES:
            continue
        field = name.removeprefix(_PREFIX).split(_NESTED)[0].lower()
        if field not in Settings.model_fields:
            raise SettingsError(f"{name}: unknown setting")


def _sentence(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"]) or "settings"
    if error["type"] == "extra_forbidden":
        return f"{key}: unknown setting"
    if error["type"] == "missing":
        return f"{key}: a value is needed"
    return f"{key}: {error['msg']}"
