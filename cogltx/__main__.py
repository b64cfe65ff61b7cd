"""``python -m cogltx``, and the command ``cogltx``: quiet, too, when interrupted while the command line is imported."""

import sys


def main() -> None:
    """Runs the command line."""
    try:
        from cogltx.cli import main as run

        run()
    except KeyboardInterrupt:
        print("cogltx: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
