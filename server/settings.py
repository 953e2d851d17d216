"""The settings: defaults of the installation, overridden by a YAML file, by SONANT_* variables, and by options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)
from pydantic_settings import SettingsError as SourceError

from engine.config import EngineConfig
from engine.system.regular_file import read_regular
from server.http.cors_settings import CorsSettings
from server.limits import Limits
from server.listeners.config import GrpcSettings, WyomingSettings
from server.model_settings import DefaultVoice, ModelSettings, VoiceAliases, check_models
from server.package_data import DEFAULT_CONFIG, config_names, find_config
from server.references.config import ReferenceSettings
from server.restart_settings import NEEDS_RESTART
from server.text_settings import TextSettings
from server.voices.config import VoiceSettings

_PREFIX = "SONANT_"
_NESTED = "__"
_MAX_CONFIG_BYTES = 1024 * 1024
_SECRETS = frozenset({"api_key"})
"""Settings whose values never appear in messages."""
_OF_ONE_MODEL = frozenset({"engine", "served_name", "model_aliases", "voice_aliases", "default_voice"})
"""Settings of a server with one model."""
_DEFAULTS = "SONANT_DEFAULTS"
"""Variable with the path of a YAML file that the configuration file overrides: the defaults of a container image."""
_OTHER_VARIABLES = frozenset({"SONANT_SERVER", _DEFAULTS})
"""Variables that are no settings. Only clients read SONANT_SERVER."""


GuardMode = Literal["auto", "off"]
"""Whether speech is checked."""


def _off(value: Any) -> Any:
    """Return "off" for false, which is how YAML reads an unquoted ``off``."""
    return "off" if value is False else value


class SettingsError(Exception):
    """A setting is invalid. The message names every invalid key."""


class Settings(BaseSettings):
    """The settings of one server process."""

    model_config = SettingsConfigDict(
        extra="forbid", env_prefix=_PREFIX, env_nested_delimiter=_NESTED, validate_default=True
    )

    engine: EngineConfig | None = Field(None, description="The engine of the only model. Exclusive with `models`.")
    models: tuple[ModelSettings, ...] = Field(
        (),
        description="Several models, each with its own engines. The first is the default of requests that name none. "
        "Exclusive with `engine`, `served_name`, `model_aliases`, `voice_aliases` and `default_voice`, which every "
        "entry has itself.",
    )
    host: str = Field(
        "127.0.0.1",
        description="Address to listen on. The default accepts connections from this machine only.",
        json_schema_extra=NEEDS_RESTART,
    )
    port: int = Field(
        8000, ge=0, le=65535, description="Port to listen on; 0 selects a free port.", json_schema_extra=NEEDS_RESTART
    )
    http_processes: int = Field(
        1,
        ge=1,
        le=64,
        description="Number of processes that serve HTTP. All use the same engines. One is enough until it uses a "
        "whole core. Each process has its share, rounded up, of the limits that count for the server. More than one "
        "needs Linux, and excludes `keep_alive` and `sonant reload`.",
        json_schema_extra=NEEDS_RESTART,
    )
    address_file: Path | None = Field(
        None,
        description="File to which the server writes its URL while it runs, for the health check of the container "
        "image and for scripts that use port 0.",
        json_schema_extra=NEEDS_RESTART,
    )
    served_name: str | None = Field(
        None,
        min_length=1,
        max_length=256,
        description="Name of the model in the API. Unset: the last part of `engine.model`.",
    )
    model_aliases: tuple[str, ...] = Field(
        (),
        description="Other names of the model, in addition to OpenAI's: `tts-1*` and `gpt-4o-mini-tts*`. A `*` stands "
        "for any characters, so `['*']` accepts every name.",
    )
    voice_aliases: VoiceAliases = Field(default_factory=dict)
    default_voice: DefaultVoice = None
    ignored_fields: tuple[str, ...] = Field(
        (),
        description="Request fields that are accepted and ignored, in addition to those that well-known clients send "
        "(`lang_code`, `metadata`, `user` and others).",
    )
    unknown_fields: Literal["error", "ignore"] = Field(
        "error",
        description="What to do with other unknown fields of speech requests. `error`: refuse the request, so that no "
        "typing error goes unnoticed. `ignore`: ignore them, and name them in the header `X-Ignored-Fields`.",
    )
    get_speech: bool = Field(
        False,
        description="Also accept `GET /v1/audio/speech?input=...`, so that a page can play speech with `<audio src>`. "
        "The text is then in the URL, which proxies and browsers keep in logs and histories.",
        json_schema_extra=NEEDS_RESTART,
    )
    guards: Annotated[GuardMode, BeforeValidator(_off)] = Field(
        "auto",
        description="`auto` checks the speech of a trained checkpoint while it is made. Speech that is silent, runs "
        "away, repeats itself or ends far too early is made again, or else the request fails with `speech_failed`. "
        "English speech that lacks or repeats words is made again, too. "
        "`off` delivers everything.",
    )
    trim_leading_silence: bool = Field(
        False,
        description="Remove the silence before the first audible sample, except for the last 20 ms. Clones in context "
        "have at most 0.1 s before the first sound above -50 dBFS in any case, unless their text begins with a pause "
        "or they are quieter than that for a whole second.",
    )
    api_key: SecretStr | None = Field(
        None, description="API key that requests must send. Prefer SONANT_API_KEY to a configuration file."
    )
    keys_file: Path | None = Field(
        None, description="File of API keys, one per line: see `sonant keys`. The server follows its changes."
    )
    open_lists: bool = Field(
        False,
        description="Let clients without a key read the lists of models and voices, because some clients send none. "
        "They see built-in and shared voices, without transcripts and consent ids.",
        json_schema_extra=NEEDS_RESTART,
    )
    allow_unauthenticated: bool = Field(
        False,
        description="Allow a `host` that other machines can reach although the server has no API key.",
        json_schema_extra=NEEDS_RESTART,
    )
    own_names: tuple[str, ...] = Field(
        (),
        description="Host names of a server without API keys. It refuses requests for any other Host, as protection "
        "against DNS rebinding. IP addresses, localhost, names without a dot and this machine's name are always "
        "allowed.",
        json_schema_extra=NEEDS_RESTART,
    )
    log_format: Literal["text", "json"] = Field(
        "text",
        description="Format of the log: text for people, or one JSON object per line.",
        json_schema_extra=NEEDS_RESTART,
    )
    tracing: bool = Field(
        False,
        description="Send an OpenTelemetry span for each speech request. Needs the `otel` extra.",
        json_schema_extra=NEEDS_RESTART,
    )
    limits: Limits = Field(default_factory=Limits)
    cors: CorsSettings = Field(default_factory=CorsSettings, json_schema_extra=NEEDS_RESTART)
    voices: VoiceSettings = Field(default_factory=VoiceSettings)
    references: ReferenceSettings = Field(default_factory=ReferenceSettings)
    text: TextSettings = Field(default_factory=TextSettings)
    grpc: GrpcSettings = Field(default_factory=GrpcSettings, json_schema_extra=NEEDS_RESTART)
    wyoming: WyomingSettings = Field(default_factory=WyomingSettings, json_schema_extra=NEEDS_RESTART)

    @property
    def all_models(self) -> tuple[ModelSettings, ...]:
        """The settings of all models, the default first, with the server's log format.

        A file with ``engine`` has one model.
        """
        models = self.models
        if self.engine is not None:
            only = ModelSettings(
                name=self.served_name or Path(self.engine.model).name,
                aliases=self.model_aliases,
                default_voice=self.default_voice,
                voice_aliases=self.voice_aliases,
                engine=self.engine,
            )
            models = (only,)
        log_format = {"log_format": self.log_format}
        return tuple(each.model_copy(update={"engine": each.engine.model_copy(update=log_format)}) for each in models)

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        if self.engine is None and not self.models:
            raise ValueError("engine: a value is required: set engine.model, or list several models under models")
        check_models(self.all_models, self.http_processes)
        if self.models:
            for name in sorted(_OF_ONE_MODEL & self.model_fields_set):
                raise ValueError(f"{name}: cannot be combined with models: set it in each entry of models")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: options, variables, file, defaults. A .env file and a secrets folder are not read."""
        defaults = os.environ.get(_DEFAULTS)
        files = [_YamlSource(settings_cls), *([_YamlSource(settings_cls, Path(defaults))] if defaults else [])]
        return init_settings, env_settings, *files


class _YamlSource(YamlConfigSettingsSource):
    """The YAML file. Paths in it are relative to the file, not to the working directory."""

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        """Read the file, without blocking if a FIFO has replaced it since ``_check_file``."""
        return yaml.safe_load(read_regular(Path(file_path), _MAX_CONFIG_BYTES)) or {}

    def __call__(self) -> dict[str, Any]:
        values = super().__call__()
        folder = Path(str(self.yaml_file_path)).resolve().parent
        for name in ("keys_file", "address_file"):
            if isinstance(file := values.get(name), str):
                values[name] = os.path.normpath(folder / Path(file).expanduser())
        voices = values.get("voices")
        if isinstance(voices, dict) and isinstance(voice_folder := voices.get("folder"), str):
            values["voices"] = voices | {"folder": os.path.normpath(folder / Path(voice_folder).expanduser())}
        references = values.get("references")
        if isinstance(references, dict) and isinstance(folders := references.get("folders"), list):
            absolute = [os.path.normpath(folder / Path(str(each)).expanduser()) for each in folders]
            values["references"] = references | {"folders": absolute}
        _resolve_checkpoint(values, folder)
        models = values.get("models")
        if isinstance(models, list):
            values["models"] = [
                _resolve_checkpoint(dict(each), folder) if isinstance(each, dict) else each for each in models
            ]
        return values


def _resolve_checkpoint(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Resolve the checkpoint of ``engine`` in ``values``, relative to ``folder``. Return ``values``."""
    engine = values.get("engine")
    if isinstance(engine, dict) and isinstance(model := engine.get("model"), str):
        values["engine"] = engine | {"model": resolve_model(model, folder)}
    return values


def resolve_model(model: str, folder: Path) -> str:
    """Return ``model`` as an absolute path if it is a folder, else unchanged as a hub name.

    It is a folder if it starts with ``.``, ``/`` or ``~``, or exists as a folder in ``folder``.
    """
    path = Path(model).expanduser()
    if path.is_absolute() or model.startswith(".") or (folder / path).is_dir():
        return os.path.normpath(folder / path)
    return model


def load_settings(config: Path | None = None, flags: dict[str, Any] | None = None) -> Settings:
    """Load and validate the settings. ``flags`` is nested like the settings and overrides all other sources.

    config: a file, or the name of an included configuration; None: the pocket checkpoint's.

    Raises SettingsError for an unreadable file, an unknown key or an invalid value.
    """
    path = DEFAULT_CONFIG if config is None else find_config(config)
    _check_file(path)
    _check_defaults()
    _refuse_unknown_variables()

    class Configured(Settings):
        model_config = SettingsConfigDict(yaml_file=path)

    try:
        loaded = Configured(**(flags or {}))
    except ValidationError as error:
        raise SettingsError("; ".join(_describe(item) for item in error.errors())) from None
    except SourceError as error:
        raise SettingsError(str(error)) from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{path}: {error}") from None
    except (TypeError, ValueError):
        raise SettingsError(f"{path}: must be a mapping of settings") from None
    for engine in [each.engine for each in loaded.models] if loaded.engine is None else [loaded.engine]:
        engine.model = resolve_model(engine.model, Path.cwd())
    return Settings.model_construct(loaded.model_fields_set, **dict(loaded))  # compares equal, and can be pickled


def _check_file(path: Path) -> None:
    """Raise SettingsError if ``path`` is not a readable configuration file."""
    try:
        read_regular(path, _MAX_CONFIG_BYTES)
    except FileNotFoundError:
        raise SettingsError(
            f"the configuration file {path} does not exist: set another one with --config, or one that is included: "
            f"{', '.join(config_names())}"
        ) from None
    except OSError as error:
        raise SettingsError(f"the configuration file {path} cannot be read: {error.strerror}") from None


def _check_defaults() -> None:
    """Raise SettingsError if the file in SONANT_DEFAULTS cannot be read."""
    path = os.environ.get(_DEFAULTS)
    try:
        if path:
            read_regular(Path(path), _MAX_CONFIG_BYTES)
    except OSError as error:
        raise SettingsError(f"{_DEFAULTS}: the file {path} cannot be read: {error.strerror}") from None


def _refuse_unknown_variables() -> None:
    for name in os.environ:
        if not name.startswith(_PREFIX) or name in _OTHER_VARIABLES:
            continue
        field = name.removeprefix(_PREFIX).split(_NESTED)[0].lower()
        if field not in Settings.model_fields:
            raise SettingsError(f"{name}: unknown setting")


def _describe(error: Any) -> str:
    """Return the message for one of pydantic's errors: the key, what is allowed, and the value received."""
    key = ".".join(str(part) for part in error["loc"])
    if not key:  # an error of several settings together, which names them itself
        return str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        return f"{key}: unknown setting"
    if error["type"] == "missing":
        return f"{key}: a value is required"
    message = str(error["msg"])
    if error["type"] == "value_error":
        return f"{key}: {message.removeprefix('Value error, ')}"
    scalar = isinstance(error["input"], bool | int | float | str)
    return f"{key}: {message}, got {error['input']!r}" if scalar and key not in _SECRETS else f"{key}: {message}"
