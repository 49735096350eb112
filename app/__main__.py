"""`python -m ebbtide.app` is the same as `ebbtide`."""

import sys

from ebbtide.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
