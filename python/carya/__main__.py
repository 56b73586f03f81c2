"""`python -m carya` is the command `carya`."""

from ._cli.main import main

if __name__ == "__main__":
    main()
