"""Writes a GGUF file with random weights in the true shape of a real mixture of experts.

    python tests/tools/random_moe.py olmoe-1b-7b OUT.gguf [--type Q3_K|Q4_0|Q4_K|IQ4_XS|Q8_0] [--layers N]
        [--seed N]

ebbtide and llama.cpp can then be raced at real sizes without the model. Routers are made to behave like
trained ones (tests/helpers/moe/weights.py says how); `moe_routing.py` shows the figures of a file. Needs
llama-cpp-python for its quantiser. Exits 2 for a bad argument and 4 when the disk has too little room.
"""

import argparse
import errno
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: find `tests`

from ebbtide.app.paths import find_paths
from ebbtide.app.starter import DEFAULT_QUANT, starter_file
from ebbtide.engine.disk import free_bytes
from ebbtide.engine.errors import EbbtideError
from tests.helpers.moe.file import RandomModel, write_model
from tests.helpers.moe.kinds import FILE_TYPES
from tests.helpers.moe.shapes import SHAPES, tiny
from tests.helpers.moe.vocabulary import words

STARTER_TOKENS = 49_152
SPARE_BYTES = 64 << 20
"""Left free beside the file."""


def parse(arguments: list[str] | None) -> argparse.Namespace:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=Path, metavar="OUT.gguf")
    parser.add_argument("--type", choices=FILE_TYPES, default="Q4_0")
    parser.add_argument("--layers", type=int, default=0, help="fewer than the model has")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokenizer", default="", help="a GGUF file; else the starter's if it is there")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)  # for tests
    options = parser.parse_args(arguments)
    options.model = tiny(SHAPES[options.shape]) if options.tiny else SHAPES[options.shape]
    most = options.model.sizes.layers
    if not 0 <= options.layers <= most:
        parser.error(f"--layers {options.layers}: {options.shape} has {most}")
    if options.seed < 0:
        parser.error("--seed must not be negative")
    if not options.out.absolute().parent.is_dir():
        parser.error(f"there is no folder {options.out.absolute().parent}")
    return options


def tokenizer(wish: str, vocabulary: int) -> Path | None:
    """The file whose tokens are taken; None for the tests' tiny ones."""
    if wish:
        return Path(wish)
    starter = starter_file(find_paths(), DEFAULT_QUANT)
    return starter if starter.is_file() and vocabulary >= STARTER_TOKENS else None


def refuse_without_room(folder: Path, size: int) -> None:
    """Exits 4 when `size` bytes do not fit."""
    free = free_bytes(folder)
    if free is not None and free < size + SPARE_BYTES:
        short = (size + SPARE_BYTES - free) / 1e9
        sizes = f"{size / 1e9:.2f} GB are needed in {folder}, where {free / 1e9:.2f} GB are free"
        print(sizes, file=sys.stderr)
        print(f"free {short:.2f} GB, choose another folder, or use fewer --layers", file=sys.stderr)
        sys.exit(4)


def tell(name: str, done: int, total: int) -> None:
    print(f"\r{done / 1e9:6.2f} of {total / 1e9:.2f} GB  {name:40}", end="", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    shape = options.model.with_layers(options.layers or options.model.sizes.layers)
    began = time.monotonic()
    try:
        source = tokenizer(options.tokenizer, shape.vocab)
        vocabulary = words(shape.vocab, source)
        model = RandomModel(options.shape, shape, vocabulary, options.type, options.seed)
    except (EbbtideError, ValueError, ModuleNotFoundError) as error:
        sys.exit(f"random_moe: {error}")
    refuse_without_room(options.out.absolute().parent, model.size_bytes)
    print(f"tokens of {source or 'the tests'}: {vocabulary.real} of {shape.vocab}", file=sys.stderr)
    try:
        write_model(options.out, model, tell)
    except OSError as error:
        print(f"\nrandom_moe: {options.out} cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(4 if error.errno == errno.ENOSPC else 1)
    except KeyboardInterrupt:
        sys.exit(130)
    print(f"\n{options.out}: {model.size_bytes} bytes, {time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that an unfinished file is removed
    main()
