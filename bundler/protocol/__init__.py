"""What is true of the protocol: bytes and values in, values out; nothing here opens a file of a Provider."""
