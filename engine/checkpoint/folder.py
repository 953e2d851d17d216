"""Opens and checks a checkpoint folder, given its path or its Hugging Face hub name (SPEC 1)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from engine.checkpoint.architecture import CodecArchitecture, ModelArchitecture
from engine.checkpoint.checksums import SUMS_FILE, Checksums
from engine.checkpoint.config import GenerationDefaults, read_codec, read_generation_defaults, read_model
from engine.checkpoint.json_file import read_json
from engine.checkpoint.layout import Shapes, codec_shapes, model_shapes
from engine.checkpoint.speech_profile import PROFILE_FILE, read_speech_profile
from engine.checkpoint.tensors import TensorFile, TensorSource
from engine.errors import CheckpointError
from engine.prompt.lexicon import LEXICON_FILE
from engine.prompt.tokenizer import TextTokenizer, check_text_ids
from engine.protocol.speech_profile import SpeechProfile

FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    "speech_tokenizer/config.json",
    "speech_tokenizer/model.safetensors",
)
"""The published files of a checkpoint to download, verify and load. SHA256SUMS goes with them."""
OWN_FILES = (PROFILE_FILE, LEXICON_FILE)
"""Optional files that only Sonant reads."""

NEVER_SAMPLED = 1024
"""Number of ids at the end of the talker's vocabulary that are never sampled, except eos (SPEC 6)."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_log = logging.getLogger(__name__)


def find_folder(name: str) -> Path:
    """Return the local folder ``name``, or download the Hugging Face repository of that name if it is not cached.

    Raises CheckpointError with instructions if there is neither.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise CheckpointError(f"model must be the folder of a checkpoint, got the file {name}")
    if not _HUB_NAME.fullmatch(name):
        raise CheckpointError(
            f"model must be an existing folder or a Hugging Face name such as Qwen/Qwen3-TTS-12Hz-0.6B-Base, got {name}"
        )
    return _download(name)


def _download(name: str) -> Path:
    # Imported here because the import takes 0.25 s, and a local folder does not need it.
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=[*FILES, *OWN_FILES, SUMS_FILE]))
    except Exception as error:  # errors of the hub, its HTTP library and the system
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise CheckpointError(
            f"the folder {name} does not exist, and downloading it from the Hugging Face hub failed: {reason[0]}. "
            "Check the name; without a connection, download it elsewhere and set model to its folder; if it is "
            "private, set HF_TOKEN"
        ) from error


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose files, configurations and tensor headers are consistent.

    Tensors are read on demand into newly allocated memory, so that overwriting or truncating a file later has no
    effect. Each call reads its file again, so load each part once.
    """

    folder: Path
    model: ModelArchitecture
    codec: CodecArchitecture
    generation: GenerationDefaults
    profile: SpeechProfile
    tokenizer: TextTokenizer
    _model_file: TensorFile
    _codec_file: TensorFile

    def tensors(self, prefix: str) -> dict[str, torch.Tensor]:
        """Return the tensors of model.safetensors under a dotted prefix such as "talker.model.".

        The returned names do not contain the prefix. The dtype is the stored one. Raises CheckpointError if the file
        does not match its checksum or has changed since the checkpoint was opened. If the file is prefetched,
        ``verify`` raises it.
        """
        return self._model_file.read(_with_dot(prefix), model_shapes(self.model))

    def codec_tensors(self, prefix: str) -> dict[str, torch.Tensor]:
        """Like ``tensors``, from speech_tokenizer/model.safetensors, with a prefix such as "decoder."."""
        return self._codec_file.read(_with_dot(prefix), codec_shapes(self.codec))

    def prefetch(self, *, whole: bool = False) -> None:
        """Start reading all of model.safetensors in a thread, so that the file is read only once.

        Then ``tensors`` and ``stream`` return each tensor once, and ``verify`` must be called before their first use.
        whole: see ``TensorStream``.
        """
        self._model_file.prefetch(model_shapes(self.model).keys(), whole=whole)

    def verify(self) -> None:
        """Read the rest of a prefetched model.safetensors, and forget the tensors that were not used.

        Raises CheckpointError if the file does not match its checksum or has changed since the checkpoint was opened.
        """
        self._model_file.verify()

    def stream(self, prefix: str) -> AbstractContextManager[TensorSource]:
        """Return the tensors of model.safetensors under a dotted prefix, each of which is read when it is taken.

        A tensor is in memory only until the caller releases it, if tensors are taken in the order of the file. At the
        end of the context the file is verified, as by ``verify``.
        """
        return _stream(self._model_file, _with_dot(prefix), model_shapes(self.model))

    def codec_stream(self, prefix: str) -> AbstractContextManager[TensorSource]:
        """Like ``stream``, from speech_tokenizer/model.safetensors."""
        return _stream(self._codec_file, _with_dot(prefix), codec_shapes(self.codec))

    def codec_embedding(self) -> torch.Tensor:
        """Return the talker's embedding of codebook 0 and the codec-side ids, including speakers: [vocab, hidden]."""
        return self._model_file.peek("talker.model.codec_embedding.weight")


class _StreamedTensors:
    """``TensorSource`` of the tensors of a file under a prefix."""

    def __init__(self, file: TensorFile, prefix: str, shapes: Shapes) -> None:
        self._file, self._prefix, self._shapes = file, prefix, shapes

    def __contains__(self, name: object) -> bool:
        return f"{self._prefix}{name}" in self._shapes

    def __getitem__(self, name: str, /) -> torch.Tensor:
        return self._file.peek(self._prefix + name)

    def pop(self, name: str, /) -> torch.Tensor:
        return self._file.take(self._prefix + name)


@contextmanager
def _stream(file: TensorFile, prefix: str, shapes: Shapes) -> Iterator[TensorSource]:
    if not file.prefetching:
        file.prefetch([name for name in shapes if name.startswith(prefix)])
    try:
        yield _StreamedTensors(file, prefix, shapes)
    except Exception:
        file.verify()  # a damaged file may be the cause
        raise
    file.verify()


def open_checkpoint(name_or_folder: str, *, verify: bool = True) -> Checkpoint:
    """Find and check a checkpoint: a folder, or a hub name such as "Qwen/Qwen3-TTS-12Hz-0.6B-Base".

    Weights are only read from safetensors files. Files with checksums (see ``engine.checkpoint.checksums``) are
    verified while they are read, unless ``verify`` is false. Raises CheckpointError with the file and the key or
    tensor.
    """
    folder = find_folder(name_or_folder)
    checksums = Checksums.load(folder, enabled=verify)
    if unlisted := checksums.unlisted((*FILES, *OWN_FILES)):
        _log.warning("%s does not list %s: loading without verification", folder / SUMS_FILE, ", ".join(unlisted))
    model_config, codec_config = folder / "config.json", folder / "speech_tokenizer" / "config.json"
    model = read_model(read_json(model_config, checksums), model_config)
    codec = read_codec(read_json(codec_config, checksums), codec_config)
    _check_codebooks(folder, model, codec)
    tokenizer = TextTokenizer(folder, checksums)
    check_text_ids(folder, tokenizer, model.text_ids, model.talker.text_vocab, checksums)
    model_file = TensorFile(folder / "model.safetensors", checksums)
    codec_file = TensorFile(folder / "speech_tokenizer" / "model.safetensors", checksums)
    model, codec = _drop_missing_encoders(model, model_file, codec, codec_file)
    model_file.check(model_shapes(model))
    codec_file.check(codec_shapes(codec))
    generation = read_generation_defaults(folder, checksums)
    profile = read_speech_profile(folder, checksums)
    return Checkpoint(folder, model, codec, generation, profile, tokenizer, model_file, codec_file)


def _drop_missing_encoders(
    model: ModelArchitecture, model_file: TensorFile, codec: CodecArchitecture, codec_file: TensorFile
) -> tuple[ModelArchitecture, CodecArchitecture]:
    """Remove the encoders that a config describes but whose tensors are missing.

    Fine-tuning tools drop the tensors of the speaker encoder and keep its configuration.
    """
    if not model_file.has_any("speaker_encoder."):
        model = replace(model, speaker_encoder=None)
    if not codec_file.has_any("encoder."):
        codec = replace(codec, encoder=None)
    return model, codec


def _check_codebooks(folder: Path, model: ModelArchitecture, codec: CodecArchitecture) -> None:
    """Raise CheckpointError unless talker, code predictor and speech encoder have codebooks of the decoder's size."""
    size = codec.decoder.codebook_size
    talker = model.talker
    sizes = {"the talker": talker.vocab - NEVER_SAMPLED, "the code predictor": talker.predictor.vocab}
    if codec.encoder is not None:
        sizes["the speech encoder"] = codec.encoder.codebook_size
    for part, found in sizes.items():
        if found != size:
            raise CheckpointError(
                f"{folder}: the codebooks of {part} must have {size} codes, the decoder_config.codebook_size of "
                f"speech_tokenizer/config.json, found {found}"
            )


def _with_dot(prefix: str) -> str:
    return prefix if prefix.endswith(".") or not prefix else prefix + "."
