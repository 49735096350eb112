"""How a prompt is cut into the chunks of its prefill.

A chunk reads every weight that any of its tokens needs, so a short one takes nearly as long as a long one: no
chunk may be a small rest. A token's bits do not depend on where chunks end.
"""


def chunk_end(start: int, end: int, most: int) -> int:
    """Where the chunk from position `start` on ends: [start, end) is cut into equal parts of up to `most`."""
    left = end - start
    parts = -(-left // most)
    return start + -(-left // parts)
