"""Commands about single turns: copy, edit, answer again, fork, leave out."""

from typing import TYPE_CHECKING

from ebbtide.app.code_blocks import code_blocks
from ebbtide.app.conversation import Message
from ebbtide.app.screens.picker import Choice
from ebbtide.app.slash.registry import Command
from ebbtide.app.thinking import split_thinking
from ebbtide.engine.errors import UsageError

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen


def last_of(screen: "ChatScreen", role: str) -> Message:
    """The last question or answer. Raises UsageError."""
    for message in reversed(screen.session.conversation.path):
        if message.role == role:
            return message
    raise UsageError("There is no such turn yet", hint="Ask something first.")


async def copy(screen: "ChatScreen", argument: str) -> None:
    """The last answer, or with a number the code block of that number in it."""
    answer = split_thinking(last_of(screen, "assistant").text).answer
    if not argument:
        await screen.copy(answer.strip())
        return
    blocks = code_blocks(answer)
    number = int(argument) if argument.isdecimal() else 0
    if not 1 <= number <= len(blocks):
        have = f"It has {len(blocks)}." if blocks else "It has none."
        raise UsageError(f"The last answer has no code block {argument}", hint=have)
    await screen.copy(blocks[number - 1].code)


def block_numbers(screen: "ChatScreen") -> list[str]:
    answers = [message for message in screen.session.conversation.path if message.role == "assistant"]
    blocks = code_blocks(split_thinking(answers[-1].text).answer) if answers else []
    return [str(number) for number in range(1, len(blocks) + 1)]


async def edit(screen: "ChatScreen", argument: str) -> None:
    screen.changes.edit(last_of(screen, "user"))


async def regenerate(screen: "ChatScreen", argument: str) -> None:
    await screen.changes.regenerate(
        screen.session.conversation.path[-1] if screen.session.conversation.path else None
    )


async def fork(screen: "ChatScreen", argument: str) -> None:
    path = screen.session.conversation.path
    if not path:
        raise UsageError("This chat has not begun", hint="There is nothing to fork.")
    await screen.changes.fork(path[-1])


async def trim(screen: "ChatScreen", argument: str) -> None:
    """Keep the oldest N messages from the model; without a number, half of what is sent."""
    sent = [message for message in screen.session.conversation.path if not message.left_out]
    if argument and not argument.isdecimal():
        raise UsageError(f"{argument!r} is not a number", hint="For example: /trim 4")
    count = int(argument) if argument else len(sent) // 4 * 2
    await screen.changes.leave_out(min(count, max(len(sent) - 1, 0)))


async def compact(screen: "ChatScreen", argument: str) -> None:
    """Elsewhere this name summarises the chat. Here nothing is ever rewritten: choose how to make room."""

    async def go(name: str) -> None:
        command = next(command for command in screen.registry.commands if command.name == name)
        await command.run(screen, "")

    rows = [
        Choice("trim", "Leave the oldest half out of what is sent", "/trim"),
        Choice("new", "Begin a new chat; this one is kept", "/new"),
        Choice("density", "Only the screen: less empty space, or more", "/density"),
    ]
    screen.pick("Make room (ebbtide writes no summaries)", rows, go)


async def untrim(screen: "ChatScreen", argument: str) -> None:
    await screen.changes.send_all()


COMMANDS = [
    Command(
        "copy", "copy the last answer, or its code block N", "answer", copy, "[N]", choices=block_numbers
    ),
    Command("edit", "edit the last question", "answer", edit, key="Esc Esc"),
    Command(
        "regenerate",
        "have the last question answered again",
        "answer",
        regenerate,
        aliases=("retry", "again"),
    ),
    Command("fork", "go on in a new chat that shares this one so far", "answer", fork),
    Command("trim", "leave the oldest turns out of what is sent", "answer", trim, "[N]"),
    Command("compact", "make room in the context: choose how", "answer", compact),
    Command("untrim", "send all turns again", "answer", untrim),
]
