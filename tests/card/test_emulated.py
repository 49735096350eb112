"""A model on a card that is made to look smaller and slower: the same tokens, and everybody is told."""

from pathlib import Path

from ebbtide.engine import messages as m
from tests.card.test_end_to_end import SIZES
from tests.helpers.host_card import HostCard, HostSide
from tests.helpers.in_process import generate, load, of, run
from tests.helpers.tiny_models import write_tiny


def test_copies_are_paced_and_tokens_are_the_same(tmp_path: Path, card: HostCard) -> None:
    path = write_tiny(tmp_path / "m.gguf", "mixtral", **{**SIZES, "layers": 1})
    request = generate(text="d", max_tokens=2)
    asked = "vram=2GB,pcie=1GB/s"
    slow = run(load(path, budget="0%", pack="no", emulate=asked), request)
    fast = run(load(path, budget="0%", pack="no"), request)
    (loaded,), (plain,) = of(slow, m.Loaded), of(fast, m.Loaded)
    assert any(notice.startswith("Emulated: 2 GB of card memory") for notice in loaded.notices)
    assert not any("Emulated" in notice for notice in plain.notices)
    (answer,), (wanted,) = of(slow, m.Finished), of(fast, m.Finished)
    assert answer.token_ids == wanted.token_ids
    paces = [place.side.paused_ns for place in card.places if isinstance(place.side, HostSide)]
    copied = paces[0]
    assert paces == [copied, 0] and copied > 1000, "a nanosecond for each byte that was copied"
