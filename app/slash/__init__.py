"""The commands of the chat: one registry for `/` in the prompt, the palette and the help."""
