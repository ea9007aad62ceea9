"""``python -m e2e.images NAME``: build an image; its archive's path is the last line."""

from __future__ import annotations

import argparse
import sys

from e2e.cluster.errors import ClusterError
from e2e.images import busybox, engine, operator, pause, python_host

IMAGES = {
    "operator": operator.ensure,
    "engine": engine.ensure,
    "python-host": python_host.ensure,
    "busybox": busybox.ensure,
    "pause": pause.ensure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.images", description=__doc__)
    parser.add_argument("image", choices=IMAGES)
    try:
        image = IMAGES[parser.parse_args().image]()
    except ClusterError as error:
        print(f"images: {error}", file=sys.stderr)
        return 2
    print(image.name)
    print(image.archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
