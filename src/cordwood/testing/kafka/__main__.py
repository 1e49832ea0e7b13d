"""`python -m cordwood.testing.kafka [--spark]`: fetch the files of servers, and of Spark's own source, before tests."""

import sys

from cordwood.errors import Unavailable

from .prepare import prepare
from .spark import spark_jars

if __name__ == "__main__":
    try:
        prepare()
        if "--spark" in sys.argv[1:]:
            spark_jars()
    except Unavailable as error:
        sys.exit(str(error))
