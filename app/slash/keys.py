"""Keys that are no commands, for the help."""

KEYS = (
    ("Enter", "send"),
    ("Ctrl+J", "new line"),
    ("Esc, Ctrl+C", "stop the answer"),
    ("Esc Esc", "edit the last question"),
    ("Up", "what you wrote before; a queued question back"),
    ("Ctrl+R", "search what you wrote before"),
    ("Ctrl+G", "write in $EDITOR"),
    ("Ctrl+O", "go on with the last chat"),
    ("Tab", "complete a / command or an @file"),
    ("Ctrl+Up, Alt+Up", "choose a turn; then:"),
    ("  e, r, f", "edit it, answer again, fork the chat there"),
    ("  c, 1 to 9", "copy it, copy its code block"),
    ("  Left, Right", "other versions"),
    ("  Enter, x", "unfold it, do not send it to the model"),
    ("PageUp, PageDown", "scroll"),
    ("Ctrl+P", "all commands"),
    ("F1", "this help"),
    ("F2", "memory panel: side, full, off"),
    ("Ctrl+D, Ctrl+C twice", "quit"),
)
