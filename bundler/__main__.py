"""`python -m bundler` is `agent-bundler`."""

import os
import sys


def main() -> None:
    """Run the command; ends the process. Interrupted, it says so and no more, while it is still being imported too."""
    try:
        from .cli.main import run

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        os.write(2, b"aborted\n")
        os._exit(130)  # what was half imported can't be taken apart in order


if __name__ == "__main__":
    main()
