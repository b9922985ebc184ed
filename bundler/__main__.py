"""`python -m bundler` is `agent-bundler`."""

from .cli.main import main

if __name__ == "__main__":
    main()
