"""`cordwood pipeline` for spark-submit: spark-submit --master … "$(cordwood pipeline script)" replicate orders …"""

import sys

from cordwood.cli import main

if __name__ == "__main__":
    sys.exit(main(["pipeline", *sys.argv[1:]]))
