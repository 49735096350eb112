"""The printable alphabet in which byte-level vocabularies spell their bytes.

The 188 bytes that print by themselves in Latin-1 stand for themselves; the others take the code points from
256 on, in order (Radford et al. 2019, the GPT-2 tokenizer).
"""

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in _PRINTABLE]

BYTE_OF: dict[str, int] = {chr(byte): byte for byte in _PRINTABLE}
BYTE_OF |= {chr(256 + place): byte for place, byte in enumerate(_HIDDEN)}
CHARACTER_OF: dict[int, str] = {byte: character for character, byte in BYTE_OF.items()}

_TO_LATIN1 = {ord(character): byte for character, byte in BYTE_OF.items()}


def spelled_bytes(text: str) -> bytes:
    """The bytes that a token text spells; a character outside the alphabet stands for itself in UTF-8."""
    try:
        return text.translate(_TO_LATIN1).encode("latin-1")
    except UnicodeEncodeError:
        return b"".join(bytes([BYTE_OF[c]]) if c in BYTE_OF else c.encode() for c in text)
