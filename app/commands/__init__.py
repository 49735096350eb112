"""One file per command; a command is imported when it runs, and imports what is heavy only then."""

COMMANDS = {
    "bench": "bench:bench",
    "calibrate": "calibrate:calibrate",
    "chat": "chat:chat",
    "chats": "chats:chats",
    "compare": "compare:compare",
    "doctor": "doctor:doctor",
    "eval": "evaluate:evaluate",
    "ls": "ls:ls",
    "pack": "pack:pack",
    "paths": "paths:paths",
    "pull": "pull:pull",
    "rm": "rm:rm",
    "run": "run:run",
    "show": "show:show",
    "top": "top:top",
}
"""Name -> "module:attribute", the module in this package."""
