"""Reading GGUF files, with nothing trusted before it is checked."""
