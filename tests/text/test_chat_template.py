"""Rendering of chats, the defaults without a template, and what happens to templates that do not work."""

import pytest

from ebbtide.engine.errors import ModelError
from ebbtide.engine.messages import Turn
from ebbtide.engine.text import ChatTemplate
from tests.helpers.vocab_files import LIST, TEMPLATE, byte_level_keys, sentencepiece_keys
from tests.text.conftest import OpenKeys

SYSTEM, QUESTION, ANSWER = Turn("system", "Be brief."), Turn("user", "Hi"), Turn("assistant", "Hello")
STRICT = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "[{{ m.role }}|{{ m.content }}]{% endfor %}"
)


def test_what_a_template_sees() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}({{ m['role'] }}:{{ m.content }}){% endfor %}{{ eos_token }}"
    )
    source += "{% if not tools and not documents and add_generation_prompt %}>{% endif %}"
    template = ChatTemplate(source, bos_token="<s>", eos_token="</s>")
    assert template.render([SYSTEM, QUESTION]) == "<s>(system:Be brief.)(user:Hi)</s>>"
    assert (
        template.render([QUESTION, ANSWER], add_generation_prompt=False)
        == "<s>(user:Hi)(assistant:Hello)</s>"
    )
    assert (template.notices, template.stop_strings) == ((), ())


def test_the_template_and_the_tokens_of_the_file(open_keys: OpenKeys) -> None:
    template = ChatTemplate.from_gguf(
        open_keys(byte_level_keys() | {TEMPLATE: "{{ bos_token }}{{ eos_token }}"})
    )
    assert template.render([QUESTION]) == "<|im_start|><|im_end|>"


@pytest.mark.parametrize("template", [{}, {TEMPLATE: ""}, {TEMPLATE: " \n"}])
def test_chatml_where_the_vocabulary_has_it(open_keys: OpenKeys, template: dict[str, object]) -> None:
    default = ChatTemplate.from_gguf(open_keys(byte_level_keys() | template))
    expected = (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>assistant\n"
    )
    assert default.render([QUESTION, ANSWER]) == expected
    assert "has no chat template: ChatML" in default.notices[0]


def test_plain_lines_where_nothing_is_known(open_keys: OpenKeys) -> None:
    default = ChatTemplate.from_gguf(open_keys(sentencepiece_keys()))
    expected = "System: Be brief.\n\nUser: Hi\n\nAssistant: Hello\n\nAssistant:"
    assert default.render([SYSTEM, QUESTION, ANSWER]) == expected
    assert "\n\nUser:" in default.stop_strings
    assert "has no chat template: plain" in default.notices[0]


def test_a_system_message_goes_before_the_question_where_there_is_no_such_role() -> None:
    template = ChatTemplate(STRICT)
    assert template.render([SYSTEM, QUESTION, ANSWER]) == "[user|Be brief.\n\nHi][assistant|Hello]"
    assert template.render([SYSTEM]) == "[user|Be brief.]"
    assert "no system role" in template.notices[0]
    assert ChatTemplate("{{ messages[0].content }}").notices == ()


def test_a_template_that_refuses_a_chat_is_quoted() -> None:
    with pytest.raises(ModelError, match=r"cannot be used for this chat.*roles must alternate") as caught:
        ChatTemplate(STRICT).render([QUESTION, QUESTION])
    assert caught.value.exit_code == 3
    assert caught.value.hint


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}",
        "{{ unknown() }}",
        "{{ 1 / 0 }}",
        "{{ messages[5].content.x }}",
        "{% include 'x' %}",
        "{{ '\\x1b]52;c;x\\x07' | nofilter }}",
        "{{ raise_exception('\x1b[31m') }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'a' * 10000000000 }}",
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    ],
)
def test_templates_that_do_not_work_are_refused_when_loaded(source: str) -> None:
    with pytest.raises(ModelError, match="its chat template") as caught:
        ChatTemplate(source)
    assert str(caught.value).isprintable()


def test_a_template_key_that_holds_no_text(open_keys: OpenKeys) -> None:
    with pytest.raises(ModelError, match="not text"):
        ChatTemplate.from_gguf(open_keys(byte_level_keys() | {TEMPLATE: 5}))


def test_a_vocabulary_without_tokens(open_keys: OpenKeys) -> None:
    with pytest.raises(ModelError, match=f"has no key '{LIST}'"):
        ChatTemplate.from_gguf(open_keys({"general.name": "x"}))


@pytest.mark.parametrize(
    ("end", "opens"), [("<think>\n", True), ("", False), ("<think>\n\n</think>\n\n", False)]
)
def test_it_says_whether_it_opens_the_thinking(end: str, opens: bool) -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}Assistant: " + end)
    assert template.opens_thinking is opens
