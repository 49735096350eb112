"""What a person touches: command line, chat screen, settings."""
