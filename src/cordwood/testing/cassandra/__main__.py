"""`python -m cordwood.testing.cassandra`: fetch the files of nodes before tests."""

import sys

from cordwood.errors import Unavailable

from .prepare import prepare

if __name__ == "__main__":
    try:
        prepare()
    except Unavailable as error:
        sys.exit(str(error))
