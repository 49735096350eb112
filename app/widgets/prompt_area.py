"""The prompt with what belongs to it: completions, the queue, the line for choosing turns, drafts, modes."""

import time
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import TextArea

from ebbtide.app.completing import FileCosts, Offer, complete_command
from ebbtide.app.conversation import Message
from ebbtide.app.files.listing import ListedFile, list_files
from ebbtide.app.files.mentions import missing_files
from ebbtide.app.safe_text import safe_line
from ebbtide.app.token_counts import Cost
from ebbtide.app.turn_choice import TurnChoice
from ebbtide.app.widgets.completions import Completions
from ebbtide.app.widgets.prompt import Prompt
from ebbtide.app.widgets.queue_list import QueueList
from ebbtide.app.widgets.status_line import NOTE_HINT_S
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

    @property
    def prompt(self) -> Prompt:
        return self.query_one(Prompt)

    # --- completions and cost

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        if not self._unsaved:
            self._unsaved = True
            self.set_timer(SAVE_DRAFT_S, self.save_draft)
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
        missing = [] if self.prompt.completing else self._missing(text)
        self.prompt.border_subtitle = " · ".join([*missing, *words])
        self.prompt.set_class(bool(warning), "-too-long")

    def _missing(self, text: str) -> list[str]:
        """That a file is not there, once its name is written; it is sent as plain words all the same."""
        if "@" not in text or len(text) > MOST_SEARCHED:
            return []
        names = missing_files(text, self._chat.tools.folder)[:MOST_MISSING]
        return [f"@{safe_line(name)} is no file here" for name in names]

    def _tell_missing(self) -> None:
        """What is being sent has names that were not told of, because a list offered others for them."""
        missing = self._missing(self.prompt.text)
        if self.prompt.completing and missing:
            self._chat.hint(" · ".join(missing), NOTE_HINT_S)

    def on_text_area_selection_changed(self) -> None:
        self._complete()

    def _complete(self) -> None:
        """Show what the text at the cursor may become."""
        before = self._completed_for = self.prompt.text_before_cursor()
        offer = Offer([])
        if before != self._closed_for:
            self._closed_for = ""
            if self.prompt.cursor_location[0] == 0:
                offer = complete_command(before, self._chat.registry, self._chat)
            if not offer.rows:
                offer = self._costs.completions(before, self._list)
        completions = self.query_one(Completions)
        completions.show(*offer)
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
        """See `Completer`. Tab writes the marked row, or else the first, into the prompt. Enter does so with
        a marked row that says something else than what is written; a command that is complete then is sent
        too. Without a mark Enter sends the text as it is.
        """
        if self._completed_for != self.prompt.text_before_cursor():
            self._complete()  # the text has gone on since they were shown
        completions, before = self.query_one(Completions), self.prompt.text_before_cursor()
        chosen = completions.marked
        if chosen is None and not by_enter and completions.rows:
            chosen = completions.rows[0]
        if chosen is None or (by_enter and before.endswith(chosen.text.strip())):
            if by_enter:
                self._tell_missing()
            return by_enter
        self.prompt.replace_before_cursor(chosen.replaces, chosen.text)
        return by_enter and before.startswith("/") and not chosen.text.endswith(" ")

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

    def show_queue(self, questions: list[str], *, held: bool) -> None:
        """`questions` as they were written: what their files hold is not what waits to be read."""
        self.query_one(QueueList).show(questions, held=held)
        self.prompt.can_unqueue = bool(questions)

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
