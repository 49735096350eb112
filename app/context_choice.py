"""What can be done when the context is full. Nothing is ever left out unless the person says so."""

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.screens.picker import Choice
from ebbtide.app.token_rate import usual_tokens

GOAL = 0.5
"""Leave out so many of the oldest messages that about this share of the context is used."""


def messages_to_leave_out(session: ChatSession, question: str = "") -> int:
    """How many of the oldest messages; whole pairs. `question`: what is to be asked and is not in the chat;
    without it the last question and its answer stay.
    """
    context = session.loaded.ctx if session.loaded is not None else 0
    sent = [message for message in session.conversation.path if not message.left_out]
    sizes = [session.rate.tokens(message.usual_tokens) for message in sent]
    total, count = sum(sizes) + session.rate.tokens(usual_tokens(question)), 0
    most = len(sent) - (0 if question else 2)
    while count + 2 <= most and (total > context * GOAL or count == 0):
        total -= sizes[count] + sizes[count + 1]
        count += 2
    return count


def context_choices(session: ChatSession, question: str = "") -> list[Choice]:
    """The ways out, the gentlest first."""
    edit = Choice("edit", "Edit the last question", "the old one stays as a version")
    context = session.loaded.ctx if session.loaded is not None else 0
    if question and session.rate.tokens(usual_tokens(question)) >= context:
        return [edit]  # it is too long for any chat
    count = messages_to_leave_out(session, question)
    choices = []
    if count:
        choices.append(
            Choice("trim", f"Leave the oldest {count} messages out of what is sent", "/untrim undoes it")
        )
    choices += [
        Choice("fork", "Ask in a new chat", "this one stays as it is"),
        edit,
    ]
    return choices
