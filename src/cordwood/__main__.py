"""`python -m cordwood` is the command `cordwood`."""

import sys

from cordwood.cli import main

if __name__ == "__main__":
    sys.exit(main())
