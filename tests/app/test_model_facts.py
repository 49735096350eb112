"""`show`: a model and its pack are the same model."""

from pathlib import Path

import pytest

from ebbtide.app.model_facts import read_facts
from ebbtide.engine.weights.pack_write import write_pack
from tests.helpers.app_types import Cli
from tests.helpers.tiny_models import Family, write_tiny

SAME = (
    "name",
    "architecture",
    "parameters",
    "expert_parameters",
    "layers",
    "experts",
    "vocabulary",
    "context",
)


@pytest.mark.parametrize("family", ["mixtral", "olmoe", "qwen2moe", "qwen3moe"])
def test_a_pack_is_described_as_its_model(tmp_path: Path, family: Family) -> None:
    model = write_tiny(tmp_path / "m.gguf", family)
    pack = write_pack(model, tmp_path / "p.gguf", page_bytes=4096)
    of_model, of_pack = read_facts(model), read_facts(pack)
    assert [getattr(of_pack, name) for name in SAME] == [getattr(of_model, name) for name in SAME]
    assert of_pack.packed and not of_model.packed
    assert of_pack.expert_bytes >= of_model.expert_bytes > 0
    assert 0 < of_pack.dense_bytes < of_pack.size_bytes - of_pack.expert_bytes


def test_commands_take_packs(cli: Cli, tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "m.gguf", "qwen3moe")
    pack = str(write_pack(model, tmp_path / "p.gguf", page_bytes=4096))
    assert "a pack" in cli("show", pack).out
    assert "It fits whole" in cli("doctor", pack).out
    refused = cli("pack", pack)
    assert refused.code == 2 and "is a pack already" in refused.err


def test_show_verifies_a_pack(cli: Cli, tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "m.gguf", "mixtral")
    pack = write_pack(model, tmp_path / "m.pack.gguf", page_bytes=4096)
    result = cli("show", str(pack), "--verify")
    assert result.code == 0 and "as they were written" in result.err
    assert cli("show", str(model), "--verify").code == 2
    with pack.open("r+b") as file:
        file.seek(pack.stat().st_size // 2)
        file.write(b"damage")
    result = cli("show", str(pack), "--verify")
    assert result.code == 3 and "is damaged" in result.err and "ebbtide pack" in result.err
