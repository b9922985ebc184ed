"""What is true of the protocol: bytes and values in, values out; nothing here opens a file of a Provider."""

#: The version of the protocol that this package implements.
PROTOCOL_VERSION = "0.3.1"
