"""Times as a person says them."""

import datetime


def when(ms: int, now: datetime.datetime | None = None) -> str:
    """ "14:05" today, "Tue 14:05" in the last week, else "2026-01-31"; local time."""
    now = now or datetime.datetime.now().astimezone()
    moment = datetime.datetime.fromtimestamp(ms / 1000, now.tzinfo)
    days = (now.date() - moment.date()).days
    if days == 0:
        return f"{moment:%H:%M}"
    return f"{moment:%a %H:%M}" if 0 < days < 7 else f"{moment:%Y-%m-%d}"
