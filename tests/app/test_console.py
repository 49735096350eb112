"""Progress where nobody looks: long stages leave a few lines in a log, short ones none."""

from io import StringIO

from ebbtide.app.console import ProgressPrinter


def printed(stage: str) -> list[str]:
    stream = StringIO()
    with ProgressPrinter(stream) as progress:
        for done in range(0, 101, 25):
            progress.update(stage, done << 20, 100 << 20)
    return stream.getvalue().splitlines()


def test_a_load_is_no_news_in_a_log() -> None:
    for stage in ("Loading", "loading", "Preparing the card"):
        assert printed(stage) == []


def test_a_pack_is_news_in_a_log() -> None:
    assert printed("Packing")[:2] == ["Packing: 0% of 100 MiB", "Packing: 25% of 100 MiB"]
    assert len(printed("download")) == 5
