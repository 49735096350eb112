"""MODEL on the command line: what it can mean, which place wins, and what is refused."""

import json
from pathlib import Path

import pytest

from ebbtide.app.model_places import quant_of
from ebbtide.app.models import find_models, resolve
from ebbtide.app.paths import find_paths
from ebbtide.engine.errors import ModelError

DIGEST = "sha256:" + "a" * 64


def touch(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def hub_file(cache: Path, repo: str, name: str, revision: str = "abc", *, main: bool = True) -> Path:
    folder = cache / ("models--" + repo.replace("/", "--"))
    if main:
        touch(folder / "refs" / "main", revision.encode())
    return touch(folder / "snapshots" / revision / name)


def names() -> list[str]:
    return [model.name for model in find_models(find_paths())]


def test_a_path(tmp_path: Path) -> None:
    path = touch(tmp_path / "some.gguf")
    assert resolve(str(path), find_paths()) == path


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a folder"):
        resolve(str(tmp_path), find_paths())


def test_the_starter_has_a_path_before_it_exists() -> None:
    path = resolve("starter", find_paths())
    assert path.parent == find_paths().starter and not path.exists()


def test_hub_cache_by_repository_and_quant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    small = hub_file(tmp_path / "hub", "Some/Model-GGUF", "model-Q4_K_M.gguf")
    large = hub_file(tmp_path / "hub", "Some/Model-GGUF", "model-Q8_0.gguf")
    assert resolve("Some/Model-GGUF:Q4_K_M", find_paths()) == small
    assert resolve("some/model-gguf:q8_0", find_paths()) == large
    with pytest.raises(ModelError, match="several models"):
        resolve("Some/Model-GGUF", find_paths())


def test_hub_cache_takes_the_named_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    hub_file(tmp_path / "hub", "a/b", "m-Q4_0.gguf", revision="old", main=False)
    new = hub_file(tmp_path / "hub", "a/b", "m-Q4_0.gguf", revision="new")
    assert resolve("a/b", find_paths()) == new


def test_split_models_and_projectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path))
    for name in ("m-Q4_0-00001-of-00002.gguf", "m-Q4_0-00002-of-00002.gguf", "mmproj-m.gguf"):
        touch(tmp_path / name)
    assert names() == ["m-Q4_0-00001-of-00002"]


def test_lm_studio() -> None:
    path = touch(Path.home() / ".lmstudio" / "models" / "pub" / "Model" / "Model-Q5_1.gguf")
    assert resolve("pub/Model:Q5_1", find_paths()) == path


def ollama_manifest(root: Path, digest: str = DIGEST, model: str = "qwen", library: str = "library") -> None:
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": digest}
    other = {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "b" * 64}
    manifest = root / "manifests" / "registry.ollama.ai" / library / model / "latest"
    touch(manifest, json.dumps({"layers": [other, layer]}).encode())


def test_ollama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    blob = touch(tmp_path / "blobs" / DIGEST.replace(":", "-"))
    ollama_manifest(tmp_path)
    ollama_manifest(tmp_path, model="own", library="me")
    assert resolve("qwen:latest", find_paths()) == blob
    assert resolve("qwen", find_paths()) == blob
    assert resolve("me/own:latest", find_paths()) == blob


@pytest.mark.parametrize("digest", ["sha256:../../../etc/passwd", "sha256:short", ""])
def test_an_ollama_manifest_cannot_lead_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str
) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    touch(tmp_path / "blobs" / "sha256-short")
    ollama_manifest(tmp_path, digest)
    assert names() == []


def test_broken_manifests_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    touch(tmp_path / "manifests" / "h" / "l" / "m" / "t", b"\xff not json")
    touch(tmp_path / "manifests" / "h" / "l" / "m" / "u", b"[1]")
    assert names() == []


def test_own_models_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path))
    touch(tmp_path / "same.gguf")
    own = touch(find_paths().models / "same.gguf")
    assert resolve("same", find_paths()) == own


@pytest.mark.parametrize(
    ("name", "hint"),
    [("./nope.gguf", "Check the path"), ("user/repo:Q4_0", "Download"), ("nope", "ebbtide ls")],
)
def test_not_found_says_what_to_do(name: str, hint: str) -> None:
    with pytest.raises(ModelError, match="No model") as caught:
        resolve(name, find_paths())
    assert hint in caught.value.hint and caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("file", "quant"),
    [
        ("model-Q4_K_M.gguf", "Q4_K_M"),
        ("Model.q8_0.gguf", "Q8_0"),
        ("model-IQ4_XS.gguf", "IQ4_XS"),
        ("model-BF16-00001-of-00003.gguf", "BF16"),
        ("mxfp4.gguf", "MXFP4"),
        ("plain.gguf", "plain"),
    ],
)
def test_quant_of_file_names(file: str, quant: str) -> None:
    assert quant_of(Path(file)) == quant


@pytest.mark.parametrize("name", ["a" * 5000, "~no-such-user/a.gguf", "a\nb"])
def test_names_that_cannot_be_files_are_not_found(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        resolve(name, find_paths())
    assert len(str(caught.value)) < 150
