"""``python -m wildspec`` is the command line; it is also what ``torchrun -m wildspec`` starts."""

from wildspec.cli.main import main

if __name__ == "__main__":
    main()
