"""The memory panel: what an engine says about its memory, as pictures and words."""
