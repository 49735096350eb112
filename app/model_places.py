"""Folders where people already have models, read-only: the hub's cache, llama.cpp, LM Studio, ollama."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_LATER_SHARD = re.compile(r"-(\d{5})-of-\d{5}\.gguf$")
_QUANT = re.compile(r"(?i)(?:^|[-._])(i?q\d_[a-z0-9_]+|i?q\d|bf16|f16|f32|mxfp4|nvfp4)$")
_OLLAMA_MODEL_LAYER = "application/vnd.ollama.image.model"


@dataclass(frozen=True)
class FoundModel:
    """One model file. `name` is what a person types; `source` says where it was found."""

    name: str
    path: Path
    source: str
    bytes_when_made: int = 0
    """Of a file that is not there yet."""

    @property
    def size_bytes(self) -> int:
        return self.bytes_when_made or self.path.stat().st_size


def hub_folders() -> list[Path]:
    """Folders in the hub's or llama.cpp's layout, in the order of look-up; they need not exist."""
    home = Path.home()
    folders = [_from_variable(name) for name in ("LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")]
    folders += [_from_variable("HF_HOME", "hub"), _from_variable("XDG_CACHE_HOME", "huggingface", "hub")]
    folders += [home / ".cache" / "huggingface" / "hub", home / ".cache" / "llama.cpp"]
    return [folder for folder in dict.fromkeys(folders) if folder is not None]


def lm_studio_folder() -> Path:
    return Path.home() / ".lmstudio" / "models"


def ollama_folders() -> list[Path]:
    folders = [_from_variable("OLLAMA_MODELS"), Path.home() / ".ollama" / "models"]
    folders.append(Path("/usr/share/ollama/.ollama/models"))
    return [folder for folder in dict.fromkeys(folders) if folder is not None]


def _from_variable(name: str, *parts: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value).expanduser().joinpath(*parts) if value else None


def find_foreign_models() -> Iterator[FoundModel]:
    """All models outside ebbtide's own folders, in the order in which they win."""
    for folder in hub_folders():
        yield from hub_models(folder)
        yield from flat_models(folder)
    yield from publisher_models(lm_studio_folder())
    for folder in ollama_folders():
        yield from ollama_models(folder)


def hub_models(folder: Path) -> Iterator[FoundModel]:
    """`models--USER--REPO/snapshots/REVISION/**.gguf`, named USER/REPO:QUANT."""
    for repo in _children(folder, "models--*--*"):
        _, user, name = repo.name.split("--", 2)
        revision = _current_revision(repo)
        if revision is not None:
            yield from _repo_models(revision, f"{user}/{name}", "Hugging Face cache")


def _current_revision(repo: Path) -> Path | None:
    """What `refs/main` names, else the snapshot that came last."""
    try:
        named = repo / "snapshots" / (repo / "refs" / "main").read_text("utf-8").strip()
        if named.is_dir():
            return named
    except (OSError, UnicodeDecodeError):
        pass
    snapshots = _children(repo / "snapshots", "*")
    return max(snapshots, key=lambda path: path.stat().st_mtime, default=None)


def flat_models(folder: Path, source: str = "llama.cpp cache") -> Iterator[FoundModel]:
    """`*.gguf` directly in a folder, named by their stem."""
    for path in _children(folder, "*.gguf"):
        if _is_model(path):
            yield FoundModel(path.stem, path, source)


def publisher_models(folder: Path) -> Iterator[FoundModel]:
    """LM Studio: `PUBLISHER/MODEL/*.gguf`, named PUBLISHER/MODEL:QUANT."""
    for repo in _children(folder, "*/*"):
        yield from _repo_models(repo, f"{repo.parent.name}/{repo.name}", "LM Studio")


def _repo_models(folder: Path, repo: str, source: str) -> Iterator[FoundModel]:
    for path in _children(folder, "**/*.gguf"):
        if _is_model(path):
            yield FoundModel(f"{repo}:{quant_of(path)}", path, source)


def ollama_models(folder: Path) -> Iterator[FoundModel]:
    """`manifests/HOST/LIBRARY/MODEL/TAG` -> the blob of its model layer, named MODEL:TAG."""
    for manifest in _children(folder / "manifests", "*/*/*/*"):
        digest = _model_digest(manifest)
        blob = folder / "blobs" / digest.replace(":", "-")
        if digest and blob.is_file():
            library = manifest.parent.parent.name
            prefix = "" if library == "library" else f"{library}/"
            yield FoundModel(f"{prefix}{manifest.parent.name}:{manifest.name}", blob, "ollama")


def _model_digest(manifest: Path) -> str:
    """The digest of the model layer, or "" for a file that is no such manifest."""
    try:
        layers = json.loads(manifest.read_text("utf-8"))["layers"]
        digests = [str(layer["digest"]) for layer in layers if layer["mediaType"] == _OLLAMA_MODEL_LAYER]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return digests[0] if digests and re.fullmatch(r"sha256:[0-9a-f]{64}", digests[0]) else ""


def quant_of(path: Path) -> str:
    """The quantisation that a file's name ends in ("Q4_K_M"), else the stem."""
    stem = re.sub(r"-\d{5}-of-\d{5}$", "", path.stem)
    match = _QUANT.search(stem)
    return match.group(1).upper() if match else stem


def _is_model(path: Path) -> bool:
    """Not a vision projector, and of a split model only the first part."""
    shard = _LATER_SHARD.search(path.name)
    first = shard is None or int(shard.group(1)) == 1
    return first and not path.name.startswith("mmproj") and path.is_file()


def _children(folder: Path, pattern: str) -> list[Path]:
    """Sorted matches; a folder that is missing or not ours to read has none."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []
