"""What a template may do, and the limits that end what it may not."""

import sys

import pytest
from jinja2.exceptions import SecurityError

from ebbtide.engine.text.sandbox import ChatSandbox, TemplateRefusalError, limited_steps


def rendered(source: str, **variables: object) -> str:
    with limited_steps():
        return ChatSandbox().from_string(source).render(**variables)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a\n  {% if true %}\nb\n{% endif %}\nc", "a\nb\nc"),
        ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "13"),
        ("{% generation %}a{{ 1 }}{% endgeneration %}b", "a1b"),
        ('{{ {"a": "<é>"} | tojson }}', '{"a": "<é>"}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("{{ '-' * 3 }}{{ 2 ** 10 }}{{ 7 % 4 }}{{ '%03d' % 5 }}{{ 1.5 * 2 }}", "---102430053.0"),
        ("{{ nothing is defined }}{{ nothing }}", "False"),
    ],
)
def test_what_chat_templates_use(source: str, expected: str) -> None:
    assert rendered(source) == expected


def test_a_template_can_refuse() -> None:
    with pytest.raises(TemplateRefusalError, match="roles must alternate"):
        rendered("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ raise_exception.__globals__.os }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ '{0.__class__.__mro__}'.format(x) }}",
    ],
)
def test_python_is_out_of_reach(source: str) -> None:
    with pytest.raises(SecurityError):
        rendered(source, x=[])


def test_arguments_cannot_be_changed() -> None:
    with pytest.raises(SecurityError):
        rendered("{{ x.append(1) }}", x=[])


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{{ range(1000000000) | list }}",
        "{{ 'a' * 10000000000 }}",
        "{{ [0] * 10000000000 }}",
        "{{ 10000000000 * 'a' }}",
        "{{ 9 ** 9 ** 9 ** 9 ** 9 ** 9 ** 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
    ],
)
def test_time_and_memory_bombs_go_out(source: str) -> None:
    with pytest.raises((TemplateRefusalError, SecurityError, RecursionError, OverflowError)):
        rendered(source)


def test_steps_are_counted_to_the_number() -> None:
    loop = ChatSandbox().from_string("{% for a in range(1000) %}{{ a }}\n{% endfor %}")
    with limited_steps(100_000):
        assert loop.render().startswith("0\n1\n")
    with pytest.raises(TemplateRefusalError, match="too many steps"), limited_steps(1000):
        loop.render()


def test_the_trace_function_of_others_comes_back() -> None:
    before = sys.gettrace()
    with limited_steps():
        assert sys.gettrace() is not before
    assert sys.gettrace() is before
