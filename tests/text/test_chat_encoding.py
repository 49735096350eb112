"""Special tokens come from the template alone, whatever turns say and templates do to them."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.engine.messages import Turn
from ebbtide.engine.text import ChatTemplate, Tokenizer, encode_chat
from ebbtide.engine.text.chat_template import CHATML
from tests.helpers.vocab_files import sentencepiece_keys
from tests.text.conftest import OpenKeys

START, END = 1, 2
WRAP = "<|im_start|>{}<|im_end|>"
TRANSFORMS = {
    "as it is": "{{ m.content }}",
    "trimmed": "{{ m.content | trim }}",
    "sliced": "{{ m.content[2:] }}",
    "json": "{{ m.content | tojson }}",
    "message as json": "{{ m | tojson }}",
    "upper": "{{ m.content | upper }}",
    "joined": "{{ m.content.split('~') | join }}",
    "replaced": "{{ m.content | replace('~', '') }}",
    "twice": "{{ m.content }}{{ m.content }}",
    "reversed": "{{ m.content | reverse }}",
    "cut after thinking": "{{ m.content.split('</think>')[-1] }}",
}


@cache
def compiled(source: str) -> ChatTemplate:
    return ChatTemplate(source)


def template_of(body: str) -> ChatTemplate:
    return compiled("{% for m in messages %}" + WRAP.format(body) + "{% endfor %}")


def controls(tokenizer: Tokenizer, tokens: list[int]) -> list[int]:
    return [token for token in tokens if tokenizer.is_control(token)]


FAITHFUL = ("as it is", "trimmed", "sliced", "json", "joined", "replaced", "twice")
"""Transforms that do not look at the characters which are masked."""
PIECES = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_", "end|>", "<", "|>", "~", " ", "\n", "x")
ODD_PIECES = ("<think>", "</think>", "\U000f0000")
CONTENTS = st.lists(
    st.lists(st.sampled_from(PIECES + ODD_PIECES), max_size=8).map("".join), min_size=1, max_size=3
)


@pytest.mark.parametrize("transform", TRANSFORMS)
@settings(max_examples=50)
@given(contents=CONTENTS)
def test_content_never_becomes_a_control_token(
    byte_level: Tokenizer, transform: str, contents: list[str]
) -> None:
    template = template_of(TRANSFORMS[transform])
    tokens = encode_chat(byte_level, template, [Turn("user", content) for content in contents])
    assert controls(byte_level, tokens) == [START, END] * len(contents)


@pytest.mark.parametrize(
    "transform", ["as it is", "trimmed", "sliced", "json", "joined", "replaced", "twice"]
)
@settings(max_examples=50)
@given(contents=CONTENTS)
def test_the_text_is_what_the_template_made_of_it(
    byte_level: Tokenizer, transform: str, contents: list[str]
) -> None:
    turns = [Turn("user", content) for content in contents]
    template = template_of(TRANSFORMS[transform])
    bare = compiled("{% for m in messages %}" + TRANSFORMS[transform] + "{% endfor %}")
    assert byte_level.decode(encode_chat(byte_level, template, turns)) == bare.render(turns)


@given(contents=st.lists(st.text("ab <|>_\n日", max_size=20), min_size=1, max_size=3))
def test_harmless_chats_are_encoded_in_one_piece(byte_level: Tokenizer, contents: list[str]) -> None:
    turns = [Turn("user", content) for content in contents]
    template = compiled(CHATML)
    whole = byte_level.encode(template.render(turns), add_bos=True, parse_special=True)
    assert encode_chat(byte_level, template, turns) == whole


def test_contents_that_only_together_make_a_control_token(byte_level: Tokenizer) -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}<|im_end|>")
    turns = [Turn("user", "a<|im_"), Turn("assistant", "start|>b")]
    tokens = encode_chat(byte_level, template, turns)
    assert controls(byte_level, tokens) == [END]
    assert byte_level.decode(tokens) == "a<|im_start|>b"


def test_content_that_the_template_glues_together(byte_level: Tokenizer) -> None:
    tokens = encode_chat(byte_level, template_of(TRANSFORMS["replaced"]), [Turn("user", "<|im_~start|>")])
    assert controls(byte_level, tokens) == [START, END]
    assert byte_level.decode(tokens) == "<|im_start|>"


def test_templates_may_look_into_content(byte_level: Tokenizer) -> None:
    template = template_of(TRANSFORMS["cut after thinking"])
    for quoted in ("", " <|im_end|>"):
        turns = [Turn("assistant", f"<think>hm</think>so{quoted}")]
        tokens = encode_chat(byte_level, template, turns)
        assert byte_level.decode(tokens) == "so" + quoted
        assert controls(byte_level, tokens) == [START, END]


def test_user_defined_tokens_of_content_stay_tokens(byte_level: Tokenizer) -> None:
    think = byte_level.vocabulary.texts.index("<think>")
    for quoted in ("", "<|im_end|>"):
        tokens = encode_chat(byte_level, template_of("{{ m.content }}"), [Turn("user", "<think>" + quoted)])
        assert tokens[:2] == [START, think]


def test_bos_is_there_once(open_keys: OpenKeys) -> None:
    tokenizer = Tokenizer.from_gguf(open_keys(sentencepiece_keys()))
    for source in ("{{ bos_token }}[INST]{{ messages[0].content }}", "[INST]{{ messages[0].content }}"):
        template = ChatTemplate(source, bos_token="<s>")
        inst = tokenizer.vocabulary.texts.index("[INST]")
        tokens = encode_chat(tokenizer, template, [Turn("user", "<s>")])
        assert tokens[:2] == [1, inst]
        assert controls(tokenizer, tokens) == [1, inst]
        assert tokenizer.decode(tokens) == " <s>"


def test_the_generation_prompt_can_be_left_out(byte_level: Tokenizer) -> None:
    turns = [Turn("user", "Hi"), Turn("assistant", "Hello")]
    asking = encode_chat(byte_level, ChatTemplate(CHATML), turns)
    closed = encode_chat(byte_level, ChatTemplate(CHATML), turns, add_generation_prompt=False)
    assert asking[: len(closed)] == closed
    assert byte_level.decode(asking[len(closed) :]) == "assistant\n"
