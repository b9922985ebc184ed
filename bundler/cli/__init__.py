"""The command `agent-bundler`: parsing, calling, printing; one file a command."""
