"""The chat as a tree of messages with its system prompt; each change is kept as it happens."""

from ebbtide.app.chat_keeper import ChatKeeper
from ebbtide.app.conversation import Conversation, Message, viewed_end
from ebbtide.engine.messages import Turn


class KeptChat:
    """`usual_system` is the system prompt of a chat that has none of its own."""

    def __init__(self, keeper: ChatKeeper, usual_system: str = "") -> None:
        self.keeper = keeper
        self.conversation = Conversation()
        self.system = self._usual_system = usual_system

    @property
    def turns_to_send(self) -> list[Turn]:
        """What the model is to see."""
        system = [Turn("system", self.system)] if self.system else []
        return [*system, *self.conversation.sent]

    def set_system(self, text: str) -> None:
        """From the next answer on."""
        self.system = self.keeper.system = text
        self.keeper.settings_changed()

    # --- another chat

    def begin(self) -> None:
        """Leave the chat for a new one, with the usual system prompt."""
        self.conversation = self.keeper.begin()
        self.system = self._usual_system

    def open(self, chat_id: str) -> None:
        """Show a chat of the store. Raises StoreError; then nothing has changed."""
        self.conversation = self.keeper.load(chat_id)
        self.system = self.keeper.system or self._usual_system

    # --- its messages

    def ask(self, text: str) -> Message:
        """Add a question behind the leaf."""
        message = self.conversation.add("user", text)
        self.keeper.asked(message)
        return message

    def withdraw(self) -> str:
        """Take back the last question, so that the next one does not follow an unanswered turn. Returns its
        text; an empty one where it was only to be answered once more.
        """
        question = self.conversation.leaf
        if question is None or question.role != "user":
            return ""
        if question.children:
            self._show(viewed_end(question))
            return ""
        self.conversation.withdraw(question)
        self.keeper.withdrew(question)
        return question.text

    def switch(self, message: Message, step: int) -> None:
        """Show another version of a message."""
        self.conversation.switch(message, step)
        self._show(self.conversation.leaf)

    def _show(self, leaf: Message | None) -> None:
        self.conversation.leaf = leaf
        self.keeper.shows(leaf)

    # --- what is sent

    def leave_out_oldest(self, count: int) -> int:
        """Keep the oldest messages from the model, reversibly; returns how many it were."""
        messages = self.conversation.leave_out_oldest(count)
        self.keeper.left_out(messages, True)
        return len(messages)

    def set_left_out(self, message: Message, left_out: bool) -> None:
        """Keep a single message from the model, or send it again."""
        message.left_out = left_out
        self.keeper.left_out([message], left_out)

    def send_all(self) -> int:
        """Send what was left out again; returns how many messages it were."""
        messages = self.conversation.send_all()
        self.keeper.left_out(messages, False)
        return len(messages)
