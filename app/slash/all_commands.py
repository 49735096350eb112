"""The registry that the chat uses."""

from ebbtide.app.slash import chat_commands, compare_command, model_commands, screen_commands, turn_commands
from ebbtide.app.slash.registry import Registry

REGISTRY = Registry(
    [
        *chat_commands.COMMANDS,
        *turn_commands.COMMANDS,
        *model_commands.COMMANDS,
        *compare_command.COMMANDS,
        *screen_commands.COMMANDS,
    ]
)
