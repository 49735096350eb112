"""Two ebbtides open one model at the same time: one makes the pack, the other waits for it, or takes over."""

import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.messages import Load
from ebbtide.engine.model import open as open_module
from ebbtide.engine.model.open import FLOOR_PLANES, OpenModel, open_model, page_size_for
from ebbtide.engine.weights.gguf_source import GgufSource
from ebbtide.engine.weights.pack_index import pack_path_for
from ebbtide.engine.weights.pack_part import PartFile
from ebbtide.engine.weights.pack_plan import plan_pack
from ebbtide.engine.weights.pack_source import PackSource
from ebbtide.engine.weights.pack_write import write_pack
from ebbtide.engine.weights.source import WeightSource
from tests.helpers.tiny_models import write_tiny
from tests.helpers.waiting import PATIENCE_S


class SmallPlace:
    """Much memory, and nothing known of the machine."""

    host_bytes = 0
    chunks = (1,)
    reads_rows = True

    def transient_bytes(self, source: WeightSource, width: int, chunk: int) -> int:
        return 1 << 20

    def available_bytes(self) -> int:
        return 1 << 30

    def free_bytes(self) -> int:
        return 1 << 30

    def whole_bytes(self) -> int:
        return 0


@dataclass
class Opening:
    """Opens the model on a thread of its own."""

    model: Path
    waits: threading.Event = field(default_factory=threading.Event)
    packs: threading.Event = field(default_factory=threading.Event)
    opened: list[OpenModel] = field(default_factory=list)

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run)
        thread.start()
        return thread

    def _run(self) -> None:
        load = Load(str(self.model), budget="64MiB", pack="yes", cache_dir=str(self.model.parent))
        self.opened.append(open_model(load, SmallPlace(), self._see))

    def _see(self, stage: str, done: int, total: int) -> None:
        (self.packs if stage == "Packing" else self.waits).set()


@pytest.fixture
def opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opening:
    monkeypatch.setattr(open_module, "WAIT_S", 0.01)
    return Opening(write_tiny(tmp_path / "model.gguf", "mixtral", quant="Q4_1", experts=6))


def other_packer(model: Path) -> PartFile:
    """Another process at work on the same pack."""
    source = GgufSource(open_gguf(model), floor_planes=FLOOR_PLANES)
    source.page_bytes = page_size_for(source).page_bytes
    out = pack_path_for(model, model.parent)
    out.parent.mkdir(parents=True, exist_ok=True)
    return PartFile(out, plan_pack(source), resume=True)


def test_it_says_that_it_waits_and_goes_on_with_the_others_pack(opening: Opening, tmp_path: Path) -> None:
    model = opening.model
    source = GgufSource(open_gguf(model), floor_planes=FLOOR_PLANES)
    ready = write_pack(model, tmp_path / "ready.gguf", page_bytes=page_size_for(source).page_bytes)
    with other_packer(model) as part:
        thread = opening.start()
        assert opening.waits.wait(PATIENCE_S)
        assert not opening.opened
        shutil.copy(ready, part.out_path)
        part.discard()
    thread.join()
    assert isinstance(opening.opened[0].source, PackSource)
    assert not opening.packs.is_set(), "it was not made twice"


def test_it_takes_over_when_the_other_is_gone(opening: Opening) -> None:
    with other_packer(opening.model):
        thread = opening.start()
        assert opening.waits.wait(PATIENCE_S)
    thread.join()
    assert isinstance(opening.opened[0].source, PackSource) and opening.packs.is_set()
