"""The corpus on the screen: the lines of a streamed answer, with their styles, are those of the whole one."""

import random

import pytest
from textual.pilot import Pilot

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.widgets.turns import AnswerTurn
from tests.app.markdown_corpus.documents import DOCUMENTS, LONG, THOUGHTS
from tests.helpers.chat_host import settled
from tests.helpers.transcript_host import Host

TEXTS = {name: text for name, text in {**DOCUMENTS, **THOUGHTS}.items() if name not in LONG}
GROUPS = [list(TEXTS)[at::4] for at in range(4)]


async def lines(pilot: Pilot[None], host: Host) -> list[object]:
    """Every segment of the screen: text and style."""
    host.transcript.scroll_home(animate=False)
    await settled(pilot)
    strips = host.screen._compositor.render_strips()
    return [[(part.text, part.style) for part in strip.simplify()] for strip in strips]


async def end(pilot: Pilot[None], host: Host) -> list[object]:
    """The end of the chat, without the scrollbar."""
    await settled(pilot)
    await host.transcript.to_end()
    await settled(pilot)
    strips = [strip.crop(0, host.size.width - 4) for strip in host.screen._compositor.render_strips()]
    return [[(part.text, part.style) for part in strip.simplify()] for strip in strips]


async def stream(host: Host, text: str, seed: int) -> None:
    """In pieces, drawn now and then; the place of each cut is drawn, but the same on every run."""
    draw, content = random.Random(seed), AnswerContent()
    turn = AnswerTurn(content)
    await host.transcript.add(turn)
    at = 0
    while at < len(text):
        size = draw.randint(1, 40)
        content.push(text[at : at + size], 1)
        at += size
        await turn.draw()
    content.end()
    content.thinking_s, content.thinking_tokens = 0.0, 0  # told with a stream only
    await turn.draw()


@pytest.mark.parametrize("names", GROUPS, ids=["first", "second", "third", "fourth"])
async def test_streamed_is_whole(names: list[str]) -> None:
    host = Host()
    async with host.run_test(size=(80, 120)) as pilot:
        for seed, name in enumerate(names):
            await host.transcript.clear()
            await host.transcript.add(AnswerTurn(AnswerContent.of(TEXTS[name])))
            await settled(pilot)
            whole = await lines(pilot, host)
            await host.transcript.clear()
            await stream(host, TEXTS[name], seed)
            await settled(pilot)
            assert await lines(pilot, host) == whole, name


async def test_resized_and_out_of_the_window_meanwhile() -> None:
    """The turn streams on while it is let go (a fresh copy takes its place) and while the width changes."""
    text = "\n\n".join(
        TEXTS[name] for name in ("nested lists", "tables", "late definitions", "fences in quotes")
    )
    host = Host()
    async with host.run_test(size=(80, 120)) as pilot:
        content = AnswerContent()
        await host.transcript.show([AnswerTurn(AnswerContent.of("Before.")) for _ in range(80)])
        await host.transcript.add(AnswerTurn(content))
        for at in range(0, len(text), 50):
            content.push(text[at : at + 50], 1)
            await host.transcript.draw()
            if at == 200:
                await host.transcript.to_start()
            if at == 400:
                await pilot.resize_terminal(60, 120)
            if at == 600:
                await host.transcript.to_end()
        content.end()
        await host.transcript.draw()
        streamed = await end(pilot, host)
        before = [turn.fresh() for turn in host.transcript.turns[:-1]]
        await host.transcript.show([*before, AnswerTurn(AnswerContent.of(text))])
        assert await end(pilot, host) == streamed
