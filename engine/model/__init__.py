"""Model families: what a GGUF file holds and how a layer is computed."""
