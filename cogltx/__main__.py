"""``python -m cogltx``, and the command ``cogltx``."""

import sys


def main() -> None:
    """Run the command line; an interrupt during the imports is reported in one line, too."""
    try:
        import cogltx.bench.cli  # noqa: F401 - registers the command bench
        from cogltx.cli.app import run

        run()
    except KeyboardInterrupt:
        print("cogltx: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
