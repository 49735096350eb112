"""Files that a person names with `@path`: finding them, reading them, refusing those that are no text."""
