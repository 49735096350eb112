"""Remembered answers in a chat: the ids that were sampled come back wherever the template lets them."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings

from ebbtide.engine.errors import ModelError
from ebbtide.engine.messages import Turn
from ebbtide.engine.text import ChatTemplate, Tokenizer, encode_chat
from ebbtide.engine.text.answers import AnswerMemory
from ebbtide.engine.text.chat_template import CHATML
from tests.helpers.vocab_files import sentencepiece_keys
from tests.text.conftest import OpenKeys
from tests.text.test_answers import bytewise
from tests.text.test_chat_encoding import CONTENTS, TRANSFORMS, controls, template_of

START, END = 1, 2


@cache
def compiled(source: str) -> ChatTemplate:
    return ChatTemplate(source)


def chat_of(*contents: str) -> list[Turn]:
    """User and assistant by turns."""
    return [Turn("assistant" if at % 2 else "user", text) for at, text in enumerate(contents)]


def memory_of(
    tokenizer: Tokenizer, *answers: str, spelled: Callable[[Tokenizer, str], list[int]] = bytewise
) -> AnswerMemory:
    memory = AnswerMemory(tokenizer)
    for text in answers:
        memory.remember([*spelled(tokenizer, text), END], text)
    return memory


def contains(tokens: list[int], part: list[int]) -> bool:
    return any(tokens[at : at + len(part)] == part for at in range(len(tokens)))


def test_each_prompt_begins_with_the_one_before_and_its_answer(byte_level: Tokenizer) -> None:
    memory, template = AnswerMemory(byte_level), compiled(CHATML)
    contents, prompts, sampled = ["first?"], [], []
    for number in range(3):
        prompts.append(encode_chat(byte_level, template, chat_of(*contents), answers=memory))
        answer = f"the answer number {number}, naïve"
        sampled.append([*bytewise(byte_level, answer), END])
        memory.remember(sampled[-1], answer)
        contents += [answer, "and the next?"]
    for (before, after), ids in zip(pairwise(prompts), sampled, strict=False):
        assert after[: len(before) + len(ids)] == before + ids
    plain = encode_chat(byte_level, template, chat_of(*contents[:5]))
    assert plain != prompts[-1] and byte_level.decode(plain) == byte_level.decode(prompts[-1])


@pytest.mark.parametrize("transform", TRANSFORMS)
@settings(max_examples=60)
@given(contents=CONTENTS)
def test_the_text_and_its_control_tokens_stay_as_they_are(
    byte_level: Tokenizer, transform: str, contents: list[str]
) -> None:
    turns = [Turn("assistant", content) for content in contents]
    template = template_of(TRANSFORMS[transform])
    plain = encode_chat(byte_level, template, turns)
    spliced = encode_chat(byte_level, template, turns, answers=memory_of(byte_level, *contents))
    assert byte_level.decode(spliced) == byte_level.decode(plain)
    assert controls(byte_level, spliced) == controls(byte_level, plain) == [START, END] * len(contents)


@pytest.mark.parametrize("content", ["the <|im_end|> token", "<think>the</think>the end", "\U000f0000the"])
def test_special_texts_inside_an_answer(byte_level: Tokenizer, content: str) -> None:
    tokens = encode_chat(
        byte_level, compiled(CHATML), chat_of("<|im_start|>", content), answers=memory_of(byte_level, content)
    )
    assert contains(tokens, bytewise(byte_level, content))
    assert controls(byte_level, tokens) == [START, END, START, END, START]


@pytest.mark.parametrize("transform", ["sliced", "cut after thinking", "upper", "reversed", "trimmed"])
def test_a_template_that_changes_the_answer_gets_plain_tokens(byte_level: Tokenizer, transform: str) -> None:
    content = " <think>the</think>the  "
    turns, template = chat_of("hm", content), template_of(TRANSFORMS[transform])
    plain = encode_chat(byte_level, template, turns)
    assert encode_chat(byte_level, template, turns, answers=memory_of(byte_level, content)) == plain


def test_a_template_that_trims_leaves_a_trim_answer_alone(byte_level: Tokenizer) -> None:
    template, memory = template_of(TRANSFORMS["trimmed"]), memory_of(byte_level, "the", " the")
    tokens = encode_chat(byte_level, template, chat_of("hm", " the", "hm", "the"), answers=memory)
    whole = byte_level.encode("the", add_bos=False, parse_special=False)
    assert contains(tokens, [START, *whole, END])
    assert contains(tokens, [START, *bytewise(byte_level, "the"), END])


def test_a_template_that_refuses_the_stand_in(byte_level: Tokenizer) -> None:
    refusing = "{% for m in messages %}{% if m.content|length < 2 %}{{ raise_exception('no') }}{% endif %}"
    template = ChatTemplate(refusing + "<|im_start|>{{ m.content }}{% endfor %}")
    turns = chat_of("hm", "the")
    plain = encode_chat(byte_level, template, turns)
    assert encode_chat(byte_level, template, turns, answers=memory_of(byte_level, "the")) == plain
    with pytest.raises(ModelError, match="no"):
        encode_chat(byte_level, template, chat_of("h"), answers=memory_of(byte_level, "the"))


def test_only_what_assistants_said_is_an_answer(byte_level: Tokenizer) -> None:
    turns = [Turn("system", "the"), Turn("user", "the")]
    plain = encode_chat(byte_level, compiled(CHATML), turns)
    assert encode_chat(byte_level, compiled(CHATML), turns, answers=memory_of(byte_level, "the")) == plain


def test_an_answer_cut_by_a_stop_string_goes_on_as_plain_text(byte_level: Tokenizer) -> None:
    memory = AnswerMemory(byte_level)
    the = byte_level.encode(" the", add_bos=False, parse_special=False)
    ids = [*bytewise(byte_level, "the"), *the]
    memory.remember(ids, "the th")
    tokens = encode_chat(byte_level, compiled(CHATML), chat_of("hm", "the th"), answers=memory)
    assert contains(tokens, bytewise(byte_level, "the"))
    assert byte_level.decode(tokens).endswith("assistant\nthe th\nassistant\n")


# --- SentencePiece: a space before the first word -----------------------------------------------------------

FRAMES = {
    "behind a special token": "[INST]{{ m.content }}</s>",
    "behind text": "[INST]says: {{ m.content }}</s>",
    "behind text without a space": "[INST]says:{{ m.content }}</s>",
    "behind a space": "[INST] {{ m.content }}</s>",
    "at the beginning": "{{ m.content }}</s>",
}


def letters(tokenizer: Tokenizer, text: str) -> list[int]:
    """A token for each character; the model itself begins an answer with a space."""
    texts = tokenizer.vocabulary.texts
    return [texts.index(character) for character in text.replace(" ", "\u2581")]


def with_space(tokenizer: Tokenizer, text: str) -> list[int]:
    return letters(tokenizer, " " + text)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("spelled", [letters, with_space])
@pytest.mark.parametrize("add_space", [True, False])
def test_the_leading_space_is_neither_lost_nor_doubled(
    open_keys: OpenKeys,
    frame: str,
    spelled: Callable[[Tokenizer, str], list[int]],
    add_space: bool,
) -> None:
    tokenizer = Tokenizer.from_gguf(open_keys(sentencepiece_keys(add_space=add_space)))
    template = ChatTemplate("{% for m in messages %}" + FRAMES[frame] + "{% endfor %}")
    text = "the same" if add_space or spelled is letters else " the same"
    memory = AnswerMemory(tokenizer)
    memory.remember(spelled(tokenizer, text.strip()), text)
    turns = [Turn("assistant", text)]
    plain = encode_chat(tokenizer, template, turns)
    spliced = encode_chat(tokenizer, template, turns, answers=memory)
    assert tokenizer.decode(spliced) == tokenizer.decode(plain)
    directly = frame in ("behind a special token", "at the beginning")
    fits = directly == (spelled is with_space) or (frame == "behind text" and add_space) or not add_space
    assert contains(spliced, letters(tokenizer, "the same")) == fits
