"""`python -m cordwood.testing.kafka [--spark]`: fetch what servers, and Spark's own source, need before tests do."""

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
