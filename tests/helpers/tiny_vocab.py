"""A byte-level BPE vocabulary small enough for tests: all 256 bytes, a few merges, three control tokens."""

MERGES = (
    *("t h", "th e", "i n", "Ġ the", "e r", "Ġ a", "in g", "r e"),
    *("d e", "de f", "Ġ =", "( )", "s e", "Ġ in", "l f", "se lf"),
)
CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{{ message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
NORMAL, CONTROL = 1, 3


def byte_characters() -> list[str]:
    """The printable character that stands for each byte in a GPT-2 vocabulary, by byte value."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    stand_ins = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in stand_ins:
            stand_ins[byte] = chr(256 + len(stand_ins) - len(printable))
    return [stand_ins[byte] for byte in range(256)]


def tiny_vocab() -> tuple[list[str], list[int], list[str]]:
    """(tokens, token types, merges): 3 control tokens, 256 bytes, then one token per merge."""
    merged = [merge.replace(" ", "") for merge in MERGES]
    tokens = [*CONTROLS, *byte_characters(), *merged]
    kinds = [CONTROL] * len(CONTROLS) + [NORMAL] * (len(tokens) - len(CONTROLS))
    return tokens, kinds, list(MERGES)
