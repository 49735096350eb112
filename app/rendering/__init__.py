"""An answer as rows of the screen: Markdown in, styled lines out, without a widget for each block."""
