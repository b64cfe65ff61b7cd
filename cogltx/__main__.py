"""``python -m cogltx`` is the command ``cogltx``."""

from cogltx.cli import main

if __name__ == "__main__":
    main()
