"""Whether a file is a model that can be opened: all that its header says, and none of its weights."""

from pathlib import Path

from ebbtide.engine.text import ChatTemplate, Tokenizer, read_vocabulary
from ebbtide.engine.weights.open import open_weights


def check_file(path: Path) -> None:
    """Raises ModelError as a load would: for a file that is cut short or no GGUF, an architecture, types or a
    vocabulary that are not known. Whether it fits into memory is a load's question.
    """
    source = open_weights(path)
    try:
        vocabulary = read_vocabulary(source.file)
        Tokenizer.from_gguf(source.file, vocabulary)
        ChatTemplate.from_gguf(source.file, vocabulary)
    finally:
        source.close()
