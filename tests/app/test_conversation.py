"""The tree of a chat: versions, switching, taking back, leaving out, branching."""

from ebbtide.app.conversation import Conversation, Message
from ebbtide.engine.messages import Turn


def chat(*texts: str) -> Conversation:
    """Questions and answers in turn."""
    conversation = Conversation()
    for number, text in enumerate(texts):
        conversation.add("user" if number % 2 == 0 else "assistant", text)
    return conversation


def texts(conversation: Conversation) -> list[str]:
    return [message.text for message in conversation.path]


def chat_of_two_branches() -> tuple[Conversation, Message, Message]:
    """The diary's: two questions, the second answered twice; the first version of it is looked at last."""
    conversation = Conversation()
    first = conversation.add("user", "say one")
    conversation.add("assistant", "one")
    answer = conversation.add("user", "say two")
    conversation.add("assistant", "two")
    conversation.leaf = answer.parent
    again = conversation.add("user", "say two, again")
    conversation.switch(again, -1)
    return conversation, first, answer


def test_switching_goes_to_the_branch_that_was_shown_last_below() -> None:
    conversation, first, _ = chat_of_two_branches()
    assert [message.text for message in conversation.path][2:] == ["say two", "two"]
    conversation.leaf = None
    changed = conversation.add("user", "say one, changed")
    conversation.switch(changed, -1)
    assert [message.text for message in conversation.path] == ["say one", "one", "say two", "two"]
    conversation.switch(first, 1)
    conversation.switch(changed, 1)
    assert [message.text for message in conversation.path][2:] == ["say two", "two"]


def test_a_version_that_was_taken_back_is_not_gone_to() -> None:
    conversation, first, _ = chat_of_two_branches()
    gone = conversation.leaf
    assert gone is not None
    conversation.withdraw(gone)
    conversation.leaf = None
    changed = conversation.add("user", "say one, changed")
    conversation.switch(changed, -1)
    assert conversation.path[0] is first and gone not in conversation.path


def test_the_path_is_in_order() -> None:
    assert texts(chat("q", "a", "q2")) == ["q", "a", "q2"]
    assert Conversation().path == [] and Conversation().sent == []


def test_a_second_version_of_an_answer_and_back() -> None:
    conversation = chat("q", "first", "next", "more")
    first = conversation.path[1]
    conversation.leaf = conversation.path[0]
    second = conversation.add("assistant", "second")
    assert texts(conversation) == ["q", "second"]
    assert conversation.version(second) == (2, 2)
    assert conversation.switch(second, -1) is first
    assert texts(conversation) == ["q", "first", "next", "more"]
    conversation.switch(first, -1)  # wraps around
    assert texts(conversation) == ["q", "second"]


def test_an_edited_first_question_is_a_root_beside_the_old_one() -> None:
    conversation = chat("q", "a")
    conversation.leaf = None
    edited = conversation.add("user", "better q")
    assert conversation.version(edited) == (2, 2)
    conversation.withdraw(edited)
    assert texts(conversation) == ["q", "a"]


def test_withdrawing_the_only_version() -> None:
    conversation = chat("q", "a", "q2")
    conversation.withdraw(conversation.path[-1])
    assert texts(conversation) == ["q", "a"]
    single = chat("q")
    single.withdraw(single.path[0])
    assert single.path == []


def test_leaving_out_is_reversible() -> None:
    conversation = chat("q", "a", "q2", "a2", "q3")
    assert [message.text for message in conversation.leave_out_oldest(2)] == ["q", "a"]
    assert conversation.sent == [Turn("user", "q2"), Turn("assistant", "a2"), Turn("user", "q3")]
    assert texts(conversation) == ["q", "a", "q2", "a2", "q3"]
    assert len(conversation.send_all()) == 2 and len(conversation.sent) == 5


def test_questions_without_an_answer_are_sent_as_one() -> None:
    conversation = chat("q")
    conversation.add("user", "and")
    assert conversation.sent == [Turn("user", "q\n\nand")] and texts(conversation) == ["q", "and"]


def test_a_branch_is_a_copy() -> None:
    conversation = chat("q", "a", "q2", "a2")
    copy = conversation.branch(conversation.path[1])
    assert texts(copy) == ["q", "a"]
    copy.add("user", "other")
    assert texts(conversation) == ["q", "a", "q2", "a2"]
