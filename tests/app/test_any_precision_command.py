"""`ebbtide pack --any-precision` with the real job: what it says, interrupted, listed, shown, removed."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.precision.calibration_file import Calibration, calibration_path, key_of
from ebbtide.engine.precision.moments import Moments
from ebbtide.engine.weights.open import read_spec
from ebbtide.engine.weights.pack_index import Books, pack_path_for
from ebbtide.engine.weights.pack_source import open_pack, read_index
from tests.helpers.app_types import Cli
from tests.helpers.tiny_models import write_tiny


@pytest.fixture
def tiny(home: Path) -> Path:
    folder = home / "cache" / "models"
    folder.mkdir(parents=True)
    return write_tiny(folder / "mine.gguf", "mixtral", experts=2)


def place(tiny: Path, home: Path) -> Path:
    return pack_path_for(tiny, home / "cache", books=True)


def books_of(pack: Path) -> Books:
    books = read_index(open_gguf(pack)).books
    assert books is not None
    return books


def calibrated(tiny: Path, home: Path) -> None:
    file = open_gguf(tiny)
    spec, key, rng = read_spec(file), key_of(file), np.random.default_rng(0)
    shapes = [(spec.layers, spec.experts, cols) for cols in (spec.d_model, spec.expert_d_ff)]
    rows = [rng.gamma(0.5, size=shape).astype(np.float32) for shape in shapes]
    path = calibration_path(home / "cache", key)
    path.parent.mkdir(parents=True)
    Calibration(key, Moments(rows[0], rows[1], np.ones(rows[0].shape[:2]), 900)).save(path)


def test_help_says_that_it_is_not_the_file(cli: Cli) -> None:
    told = " ".join(cli("pack", "--help").out.split())
    assert "--any-precision" in told and "near the file's weights, not the same" in told


def test_without_a_calibration_it_says_so(cli: Cli, tiny: Path, home: Path) -> None:
    done = cli("pack", "mine", "--any-precision")
    assert done.code == 0, done.err
    assert Path(done.out.strip()) == place(tiny, home)
    assert "no calibration" in done.err and "`ebbtide calibrate`" in done.err
    assert "mine.gguf: with all planes signal to error is" in done.err
    assert "The pack has" in done.err and "took" in done.err
    assert books_of(place(tiny, home)).moments_sha256 == ""
    again = cli("pack", str(place(tiny, home)), "--any-precision")
    assert again.code == 2 and "is a pack already" in again.err


def test_a_calibration_is_used(cli: Cli, tiny: Path, home: Path) -> None:
    calibrated(tiny, home)
    done = cli("pack", "mine", "--any-precision")
    assert done.code == 0 and "calibration says matters" in done.err and "no calibration" not in done.err
    assert len(books_of(place(tiny, home)).moments_sha256) == 64


def test_a_calibration_that_cannot_be_read_is_told_of(cli: Cli, tiny: Path, home: Path) -> None:
    path = calibration_path(home / "cache", key_of(open_gguf(tiny)))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no archive")
    done = cli("pack", "mine", "--any-precision")
    assert done.code == 0 and "The calibration is not used" in done.err
    assert books_of(place(tiny, home)).moments_sha256 == ""


def test_it_has_a_name_of_its_own_and_goes_alone_or_with_its_model(cli: Cli, tiny: Path, home: Path) -> None:
    for words in (["mine", "--any-precision"], ["mine"]):
        assert cli("pack", *words).code == 0
    books, exact = place(tiny, home), pack_path_for(tiny, home / "cache")
    assert books.exists() and exact.exists()
    listed = cli("ls").out
    assert books.stem in listed and exact.stem not in listed and "any-precision codes" in listed
    shown = " ".join(cli("show", books.stem).out.split())
    assert "a pack with any-precision codes" in shown
    assert "any-precision" not in cli("show", str(exact)).out
    assert cli("rm", books.stem, "--yes").code == 0
    assert not books.exists() and exact.exists() and tiny.exists()
    assert cli("pack", "mine", "--any-precision").code == 0
    assert cli("rm", "mine", "--yes").code == 0
    assert not (books.exists() or exact.exists() or tiny.exists())


def test_interrupted_it_leaves_no_pack_and_resume_goes_on(cli: Cli, tiny: Path, home: Path) -> None:
    arguments = ["pack", str(tiny), "--any-precision"]
    program = [sys.executable, "-c", "from ebbtide.app.cli import main; raise SystemExit(main())"]
    process = subprocess.Popen([*program, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    out = place(tiny, home)
    while process.poll() is None and not Path(f"{out}.part").exists():
        pass
    process.send_signal(signal.SIGINT)
    stdout, err = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, b""), err
    assert b"--resume" in err and not out.exists()
    assert cli(*arguments, "--resume").code == 0
    resumed = out.read_bytes()
    open_pack(out).close()
    out.unlink()
    assert cli(*arguments).code == 0 and out.read_bytes() == resumed
    assert [path.name for path in out.parent.iterdir()] == [out.name]
