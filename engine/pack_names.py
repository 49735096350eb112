"""How the files of packs are called."""

PACK_SUFFIX = ".pack.gguf"
BOOKS_SUFFIX = ".any" + PACK_SUFFIX
"""Of those with any-precision codes."""
