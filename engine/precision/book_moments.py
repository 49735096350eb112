"""What weighs the errors of any-precision codes: the moments of a calibration, from a text or an imatrix."""

from pathlib import Path

from ebbtide.engine.precision.calibration_file import model_key
from ebbtide.engine.precision.known_damage import NO_CALIBRATION, kept_calibration
from ebbtide.engine.precision.moments import steadied
from ebbtide.engine.weights.book_wish import BookWish
from ebbtide.engine.weights.gguf_source import GgufSource

WEIGHED = "Codes are chosen by what the model's calibration says matters."
ALONE = (
    "The model has no calibration, so codes are chosen by the weights alone; `ebbtide calibrate` first makes "
    "better ones possible."
)


def book_wish(source: GgufSource, cache_dir: Path) -> tuple[BookWish, tuple[str, ...]]:
    """Books of a model, as good as what is known about it allows, and sentences that say which.

    Raises ModelError where the file cannot be read.
    """
    calibration, notices = kept_calibration(source, cache_dir, model_key(source))
    if calibration is None or calibration.origin == "chats":
        nobody_calibrated = calibration is not None or notices == (NO_CALIBRATION,)
        return BookWish(), (ALONE,) if nobody_calibrated else notices
    return BookWish(steadied(calibration.moments)), (WEIGHED,)
