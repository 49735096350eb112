"""Widgets that take the size a layout gives them as it is.

Textual lets a widget whose contents have grown ask for a second layout, for the sake of its scroll bars. In a
transcript each word of an answer grows a widget, none of them but the transcript has scroll bars, and a
layout takes most of the time of a redraw.
"""

from textual.geometry import Size


class SettledSize:
    """To be put in front of a widget class that does not scroll. (No widget itself: styles are inherited from
    the first base that is one.)
    """

    def _size_updated(
        self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True
    ) -> bool:
        resized: bool = super()._size_updated(  # type: ignore[misc]  # the widget class behind this one
            size, virtual_size, container_size, layout=False
        )
        return resized
