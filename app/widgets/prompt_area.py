"""The prompt with what belongs to it: completions, the queue, the line for choosing turns, drafts, modes."""

import time
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import TextArea

from ebbtide.app.completing import FileCosts, complete_command
from ebbtide.app.conversation import Message
from ebbtide.app.files.listing import ListedFile, list_files
from ebbtide.app.files.mentions import missing_files
from ebbtide.app.question_queue import QuestionQueue
from ebbtide.app.safe_text import safe_line
from ebbtide.app.token_counts import Cost
from ebbtide.app.turn_choice import TurnChoice
from ebbtide.app.widgets.completions import Completion, Completions
from ebbtide.app.widgets.prompt import Prompt
from ebbtide.app.widgets.queue_list import QueueList
from ebbtide.app.widgets.turn_chooser import TurnChooser

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen

SAVE_DRAFT_S = 0.5
COUNTED = 400
"""Characters from which on the engine counts what is typed: before that, nothing is said of it anyway."""
WORTH_SAYING = 500
"""Tokens of a prompt without files; what is less is not worth a word."""
MOST_SEARCHED = 20_000
"""Longer prompts are not searched for names of files at every key."""
MOST_MISSING = 2
"""Names of files that are not there are told so many."""
LIST_AGAIN_S = 10.0
"""The files of the folder are listed anew when the last list is older."""


class PromptArea(Vertical):
    """Works for one ChatScreen, whose methods do what the person wants."""

    def __init__(self, chat: "ChatScreen") -> None:
        super().__init__()
        self._chat = chat
        self.editing: Message | None = None
        self._costs = FileCosts(chat.tools.folder, chat.session.counts)
        self._files: list[ListedFile] = []
        self._listed_at = float("-inf")
        self._unsaved = False
        self._closed_for = self._completed_for = ""
        self.choice = TurnChoice(chat)

    def compose(self) -> ComposeResult:
        yield QueueList()
        yield Completions()
        yield Prompt()
        yield TurnChooser()

    def on_mount(self) -> None:
        self.prompt.completer = self
        self.set_interval(SAVE_DRAFT_S, self.save_draft)

    @property
    def prompt(self) -> Prompt:
        return self.query_one(Prompt)

    # --- completions and cost

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        self._unsaved = True
        self._complete()
        self._show_cost()

    def recount(self) -> None:
        """The engine has counted something; what was an estimate may be known now."""
        self._show_cost()
        if self.prompt.completing:
            self._complete()

    def _show_cost(self) -> None:
        text, session = self.prompt.text, self._chat.session
        parts, alone = self.prompt.pastes.parts(text), self.editing is not None
        if len(parts) > 1 or "@" in text or len(text) >= COUNTED or session.too_long(len(text), alone=alone):
            cost = self._costs.of_prompt(text, parts)
        else:
            cost = session.counts.estimate(parts)
        warning = session.too_long(cost.tokens, alone=alone)
        session.draft = cost if cost.tokens >= WORTH_SAYING or warning or "@" in text else Cost()
        words = [f"{session.draft}{warning}"] if session.draft.tokens else []
        self.prompt.border_subtitle = " · ".join([*self._missing(text), *words])
        self.prompt.set_class(bool(warning), "-too-long")

    def _missing(self, text: str) -> list[str]:
        """That a file is not there, once its name is written; it is sent as plain words all the same."""
        if "@" not in text or self.prompt.completing or len(text) > MOST_SEARCHED:
            return []
        names = missing_files(text, self._chat.tools.folder)[:MOST_MISSING]
        return [f"@{safe_line(name)} is no file here" for name in names]

    def on_text_area_selection_changed(self) -> None:
        self._complete()

    def _complete(self) -> None:
        """Show what the text at the cursor may become."""
        before = self._completed_for = self.prompt.text_before_cursor()
        rows: list[Completion] = []
        if before != self._closed_for:
            self._closed_for = ""
            if self.prompt.cursor_location[0] == 0:
                rows = complete_command(before, self._chat.registry, self._chat)
            rows = rows or self._costs.completions(before, self._list)
        completions = self.query_one(Completions)
        completions.show(rows)
        self.prompt.completing = bool(completions.rows)

    def _list(self) -> list[ListedFile]:
        if time.monotonic() - self._listed_at > LIST_AGAIN_S:
            self._files = list_files(self._chat.tools.folder)
            self._listed_at = time.monotonic()
        return self._files

    def move_completion(self, step: int) -> None:
        """See `Completer`."""
        self.query_one(Completions).move(step)

    def close_completions(self) -> None:
        """See `Completer`."""
        self._closed_for = self.prompt.text_before_cursor()
        self._complete()

    def take_completion(self, *, by_enter: bool) -> bool:
        """See `Completer`. Enter sends a command that is complete; anything else is written into
        the prompt.
        """
        if self._completed_for != self.prompt.text_before_cursor():
            self._complete()  # the text has gone on since they were shown
        chosen = self.query_one(Completions).chosen
        if chosen is None:
            return by_enter
        before = self.prompt.text_before_cursor()
        complete = chosen.text.strip() == before.strip()
        if not (by_enter and complete):
            self.prompt.replace_before_cursor(chosen.replaces, chosen.text)
            complete = not chosen.text.endswith(" ")
        return by_enter and complete and before.startswith("/")

    # --- modes

    def begin_edit(self, message: Message) -> None:
        self.editing = message
        self.prompt.put(message.text)
        path = self._chat.session.conversation.path
        last = next((turn for turn in reversed(path) if turn.role == "user"), None)
        which = "the last" if message is last else "an earlier"
        self.prompt.border_title = f"editing {which} question · Esc leaves it as it was"
        self.prompt.focus()

    def end_edit(self) -> Message | None:
        """Back to a new question; returns what was edited, if anything."""
        edited, self.editing = self.editing, None
        self.prompt.border_title = ""
        return edited

    def show_queue(self, queue: QuestionQueue) -> None:
        self.query_one(QueueList).show(queue.questions, held=queue.held)
        self.prompt.can_unqueue = bool(queue.questions)

    async def on_prompt_wished(self, message: Prompt.Wished) -> None:
        from ebbtide.app.wishes import fulfil  # after the first paint

        await self._chat.guarded(fulfil(message.wish, self._chat))

    async def on_turn_chooser_chosen(self, message: TurnChooser.Chosen) -> None:
        await self._chat.guarded(self.choice.do(message.deed))

    async def on_turn_chooser_block_wanted(self, message: TurnChooser.BlockWanted) -> None:
        await self._chat.guarded(self.choice.copy_block(message.number))

    def on_turn_chooser_typed(self, message: TurnChooser.Typed) -> None:
        self.choice.leave()
        self.prompt.insert(message.character)

    # --- drafts

    def save_draft(self) -> None:
        """So often a kill can lose no more than half a second of typing."""
        if self._unsaved:
            self._unsaved = False
            prompt = self.prompt
            self._chat.session.keeper.save_draft(prompt.whole_text, prompt.pastes.spans(prompt.text))
