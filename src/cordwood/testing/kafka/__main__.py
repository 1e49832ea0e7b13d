"""`python -m cordwood.testing.kafka`: fetch what the servers run on, before the tests need it."""

import sys

from cordwood.errors import Unavailable

from .broker import fetch_jars

if __name__ == "__main__":
    try:
        print(fetch_jars())
    except Unavailable as error:
        sys.exit(str(error))
